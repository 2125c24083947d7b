"""`python -m scenarios verify RUN_DIR`: computes a run again from its record and compares every bit.

Compared are every round (cohort, each update's checksum and weight, parameters), every checkpoint, and every
recorded measurement: evaluations in training and the rows of onboarders.

Three outcomes, three exit codes: ``equal`` (0), ``different`` (1) with the round and what differs,
``not replayable`` (4) with the agent and why. A run whose files cannot be read is none of them:
every damaged file is named, and the exit code is 1.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from edge_fed.config import RunConfig
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.replay import replay
from edge_fed.federated.task import initial_params
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.fingerprint import fingerprint
from edge_fed.program.run_folder import RunFolder
from scenarios.remeasure import Remeasure
from server.checkpoint import UNREADABLE, Sidecar, load_arrays, load_sidecar

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
        ProgramError: There is no run to replay, or its files are damaged.
    """
    folder = RunFolder.open(run_dir)
    kept = _checkpoints(folder)
    try:
        records = [msgspec.convert(row, RoundRecord, strict=False) for row in folder.rows(folder.metrics)]
        measured = Remeasure(folder.config, folder.rows(folder.evaluations))
    except (ValueError, KeyError, msgspec.ValidationError) as error:
        raise _damaged([f"metrics.jsonl or evaluations.jsonl cannot be read: {error}"]) from error
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
    for round_, loose in _loose_ends(kept, records, measured):
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
    kept: Mapping[int, Sidecar], records: list[RoundRecord], measured: Remeasure
) -> Iterator[tuple[int, str]]:
    """What is recorded beside the rounds, and does not fit them."""
    if missing := _lost_rounds(kept, records):
        yield len(records) + 1, missing
    for round_ in measured.left():
        yield round_, f"measurements of round {round_} are recorded, the round is not"
    yield from _wrong_checkpoints(kept, records)


def _lost_rounds(kept: Mapping[int, Sidecar], records: list[RoundRecord]) -> str:
    """Checkpoints are committed before their line is written, but only the newest line can be missing."""
    recorded = max((record.round for record in records), default=0)
    committed = max(kept, default=0)
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


def _checkpoints(folder: RunFolder) -> dict[int, Sidecar]:
    """The sidecar of every kept checkpoint; each has its hash, and so have its arrays.

    Raises:
        ProgramError: Some are damaged; each is named.
    """
    kept: dict[int, Sidecar] = {}
    damaged = []
    for round_ in folder.committed_rounds():
        array, sidecar = folder.checkpoint(round_)
        reading = sidecar
        try:
            found = load_sidecar(folder, round_)
            reading = array
            load_arrays(folder, found)
            kept[round_] = found
        except UNREADABLE as error:
            damaged.append(f"checkpoint {reading.name} cannot be read: {error}")
    if damaged:
        raise _damaged(damaged)
    return kept


def _damaged(files: list[str]) -> ProgramError:
    """The failure that says so, on one line."""
    return ProgramError(
        ExitCode.FAILED,
        "; ".join(files),
        "put back an undamaged copy; a checkpoint may also be moved away with its sidecar",
    )


def _wrong_checkpoints(kept: Mapping[int, Sidecar], records: list[RoundRecord]) -> Iterator[tuple[int, str]]:
    """Checkpoints that are whole, and not what the record says."""
    expected = {record.round: record for record in records}
    for round_ in sorted(kept.keys() & expected.keys()):
        for name in ("params_sha256", "control_sha256"):
            found, was = getattr(kept[round_], name), getattr(expected[round_], name)
            if found != was:
                what = f"has {name} {found[:12]}…, {was[:12]}… was recorded"
                yield round_, f"the checkpoint of round {round_} {what}"
