"""`python -m scenarios verify RUN_DIR`: computes a run again from its record and compares every bit.

Three outcomes, three exit codes: ``equal`` (0), ``different`` (1) with the round and what differs,
``not replayable`` (4) with the agent and why.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edge_fed.federated.record import RoundRecord
from edge_fed.federated.replay import replay
from edge_fed.params import params_sha256
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.fingerprint import fingerprint
from edge_fed.program.run_folder import RunFolder

EXIT_CODES = {
    "equal": ExitCode.OK,
    "different": ExitCode.FAILED,
    "not replayable": ExitCode.REFUSED,
}


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay showed.

    Attributes:
        outcome: See the module.
        rounds: Rounds that were compared.
        round: The first round that differs, else None.
        differences: What differs or why it cannot be replayed, for people.
    """

    outcome: Literal["equal", "different", "not replayable"]
    rounds: int
    round: int | None = None
    differences: tuple[str, ...] = ()


def verify(run_dir: Path, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Replays a run folder.

    Args:
        run_dir: The run folder.
        progress: Called with (rounds compared, rounds recorded) after each round.

    Raises:
        ProgramError: There is no run to replay.
    """
    folder = RunFolder.open(run_dir)
    try:
        records = [msgspec.convert(row, RoundRecord, strict=False) for row in folder.rows(folder.metrics)]
    except (ValueError, msgspec.ValidationError) as error:
        return Verification(
            outcome="different", rounds=0, differences=(f"metrics.jsonl cannot be read: {error}",)
        )
    foreign = tuple(_foreign(records))
    if foreign:
        return Verification(outcome="not replayable", rounds=0, differences=foreign)
    done = 0
    for again in replay(folder.config, records):
        if again.differences:
            return Verification(
                outcome="different", rounds=done, round=again.round, differences=again.differences
            )
        done += 1
        if progress:
            progress(done, len(records))
    missing = _lost_rounds(folder, records)
    if missing:
        return Verification(outcome="different", rounds=done, round=done + 1, differences=(missing,))
    wrong = next(_wrong_checkpoints(folder, records), None)
    if wrong:
        return Verification(outcome="different", rounds=done, round=wrong[0], differences=(wrong[1],))
    return Verification(outcome="equal", rounds=done)


def _lost_rounds(folder: RunFolder, records: list[RoundRecord]) -> str:
    """Checkpoints are committed before their line is written, but only the newest line can be missing."""
    recorded = max((record.round for record in records), default=0)
    committed = max(folder.committed_rounds(), default=0)
    if committed <= recorded + 1:
        return ""
    return f"round {committed} has a checkpoint, but metrics.jsonl ends with round {recorded}"


def _foreign(records: list[RoundRecord]) -> Iterator[str]:
    """Agents whose numerics are not this machine's, each named once."""
    here = fingerprint()
    seen: set[tuple[str, int]] = set()
    for record in records:
        for there, agents in record.fingerprints.items():
            for agent in agents:
                if there != here and (there, agent) not in seen:
                    seen.add((there, agent))
                    yield f"agent {agent} computed with {there}, this machine computes with {here}"


def _wrong_checkpoints(folder: RunFolder, records: list[RoundRecord]) -> Iterator[tuple[int, str]]:
    """Checkpoints whose array is not what the record says."""
    expected = {record.round: record.params_sha256 for record in records}
    for round_ in folder.committed_rounds():
        array, _ = folder.checkpoint(round_)
        if round_ not in expected:
            continue
        try:
            with np.load(array, allow_pickle=False) as stored:
                found = params_sha256(stored["params"])
        except (OSError, ValueError, KeyError) as error:
            yield round_, f"checkpoint {array.name} cannot be read: {error}"
            continue
        if found != expected[round_]:
            was = expected[round_][:12]
            yield round_, f"checkpoint {array.name} holds {found[:12]}…, {was}… was recorded"
