"""`python -m scenarios verify RUN_DIR`: computes a run again from its record and compares every bit.

Compared are every round (cohort, each update's checksum and weight, parameters), every checkpoint, and every
recorded measurement: evaluations in training and the rows of onboarders.

Three outcomes, three exit codes: ``equal`` (0), ``different`` (1) with the round and what differs,
``not replayable`` (4) with the agent and why.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from edge_fed.config import RunConfig
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.replay import replay
from edge_fed.federated.task import initial_params
from edge_fed.params import params_sha256
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.fingerprint import fingerprint
from edge_fed.program.run_folder import RunFolder
from scenarios.remeasure import Remeasure

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
        reason: Why it cannot be replayed, in a few words; empty: it was.
    """

    outcome: Literal["equal", "different", "not replayable"]
    rounds: int
    round: int | None = None
    differences: tuple[str, ...] = ()
    reason: str = ""


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
        measured = Remeasure(folder.config, folder.rows(folder.evaluations))
    except (ValueError, KeyError, msgspec.ValidationError) as error:
        why = f"metrics.jsonl or evaluations.jsonl cannot be read: {error}"
        return Verification(outcome="different", rounds=0, differences=(why,))
    if private := _private(folder.config, records):
        return Verification(
            outcome="not replayable", rounds=0, differences=(private,), reason="private noise"
        )
    foreign = tuple(_foreign(records))
    if foreign:
        return Verification(
            outcome="not replayable", rounds=0, differences=foreign, reason="other numerics than here"
        )
    done = 0
    for round_, found in _replayed(folder.config, records, measured):
        if found:
            return Verification(outcome="different", rounds=done, round=round_, differences=found)
        done = round_
        if progress and done:
            progress(done, len(records))
    for round_, loose in _loose_ends(folder, records, measured):
        return Verification(outcome="different", rounds=done, round=round_, differences=(loose,))
    return Verification(outcome="equal", rounds=done)


def _replayed(
    config: RunConfig, records: list[RoundRecord], measured: Remeasure
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Round and differences, from the initial parameters (round 0) on."""
    yield 0, tuple(measured.differences(0, initial_params(config)))
    for again in replay(config, records):
        yield again.round, again.differences or tuple(measured.differences(again.round, again.params))


def _loose_ends(
    folder: RunFolder, records: list[RoundRecord], measured: Remeasure
) -> Iterator[tuple[int, str]]:
    """What is recorded beside the rounds, and does not fit them."""
    if missing := _lost_rounds(folder, records):
        yield len(records) + 1, missing
    for round_ in measured.left():
        yield round_, f"measurements of round {round_} are recorded, the round is not"
    yield from _wrong_checkpoints(folder, records)


def _lost_rounds(folder: RunFolder, records: list[RoundRecord]) -> str:
    """Checkpoints are committed before their line is written, but only the newest line can be missing."""
    recorded = max((record.round for record in records), default=0)
    committed = max(folder.committed_rounds(), default=0)
    if committed <= recorded + 1:
        return ""
    return f"round {committed} has a checkpoint, but metrics.jsonl ends with round {recorded}"


def _private(config: RunConfig, records: list[RoundRecord]) -> str:
    """Whose updates hold noise that nobody else can compute."""
    if not (config.privacy.noisy or any(record.private_noise for record in records)):
        return ""
    agents = sorted({part.agent for record in records for part in record.contributors})
    names = ", ".join(map(str, agents)) or "of the run"
    return f"agents {names} added noise from secrets that never left them"


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
    expected = {record.round: _hashes(record) for record in records}
    for round_ in folder.committed_rounds():
        array, _ = folder.checkpoint(round_)
        if round_ not in expected:
            continue
        try:
            with np.load(array, allow_pickle=False) as stored:
                found = {name: params_sha256(stored[name]) for name in expected[round_]}
        except (OSError, ValueError, KeyError) as error:
            yield round_, f"checkpoint {array.name} cannot be read: {error}"
            continue
        for name, was in expected[round_].items():
            if found[name] != was:
                what = f"holds {name} {found[name][:12]}…, {was[:12]}… was recorded"
                yield round_, f"checkpoint {array.name} {what}"


def _hashes(record: RoundRecord) -> dict[str, str]:
    """What a round's checkpoint must hold: array -> hash."""
    control = {"control": record.control_sha256} if record.control_sha256 else {}
    return {"params": record.params_sha256, **control}
