"""`python -m scenarios verify RUN_DIR`: computes a run again from its record and compares every bit.

Compared are every round (cohort, each update's checksum, weight and metrics, parameters), every checkpoint
with its sidecar, every recorded measurement (evaluations in training, the rows of onboarders, and what was
averaged from them), and ``summary.json``. What follows from nothing recorded is not: `scenarios.restated` and
`scenarios.remeasure` name it. A record that was cut short as a whole, with its summary and its journal of
events, is a shorter run.

Three outcomes, three exit codes: ``equal`` (0), ``different`` (1) with the round and what differs,
``not replayable`` (4) with the agent and why; of such a run all that needs no replay is compared before.
A run whose files cannot be read is none of them: every damaged file is named, and the exit code is 1.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from edge_fed.federated.beside import Beside
from edge_fed.federated.chain import Chain
from edge_fed.federated.control_variate import initial_control
from edge_fed.federated.replay import replay
from edge_fed.federated.task import initial_params
from edge_fed.params import F8, params_sha256
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.fingerprint import fingerprint
from edge_fed.program.run_folder import RunFolder
from scenarios import restated
from scenarios.recorded import Damaged, Played, Record, arrays_of, read
from scenarios.remeasure import Remeasure, differing
from server.rounds import mean_metrics

EXIT_CODES = {
    "equal": ExitCode.OK,
    "different": ExitCode.FAILED,
    "not replayable": ExitCode.REFUSED,
}
Found = tuple[int, tuple[str, ...]]
"""A round, and what differs in it."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay showed.

    Attributes:
        outcome: See the module.
        rounds: Rounds that were compared.
        round: The first round that differs, else None.
        differences: What differs or why it cannot be replayed, for people.
        reason: Why it cannot be replayed, in a few words; empty: it was.
        notes: What happened to the record, and is no difference.
    """

    outcome: Literal["equal", "different", "not replayable"]
    rounds: int
    round: int | None = None
    differences: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()


def verify(run_dir: Path, progress: Callable[[int, int], None] | None = None) -> Verification:
    """Replays a run folder.

    Args:
        run_dir: The run folder.
        progress: Called with (rounds compared, rounds recorded) after each round.

    Raises:
        ProgramError: There is no run to replay, or its files are damaged.
        ConfigError: Its settings are none that a run can have.
    """
    folder = RunFolder.open(run_dir)
    folder.check()
    try:
        record = read(folder)
    except Damaged as error:
        return _before(folder, error)
    verifier = Verifier(folder, record)
    private, devices = _private(folder, record), _devices(record.rounds)
    foreign = tuple(_foreign(record.rounds))
    unplayed = bool(private or devices or foreign)
    done, notes = 0, tuple(_notes(record))
    for round_, found in verifier.unplayed(measure=not foreign) if unplayed else verifier.replayed():
        if found:
            return Verification(
                outcome="different", rounds=done, round=round_, differences=found, notes=notes
            )
        done = round_
        if progress and done:
            progress(done, len(record.rounds))
    for round_, loose in verifier.loose_ends():
        return Verification(outcome="different", rounds=done, round=round_, differences=(loose,), notes=notes)
    if unplayed:
        reason = "private noise" if private else devices or "other numerics than here"
        plant = "a real plant cannot be played again" if devices else ""
        why = (*filter(None, (private, plant)), *(() if private else foreign))
        return Verification(outcome="not replayable", rounds=0, differences=why, reason=reason, notes=notes)
    return Verification(outcome="equal", rounds=done, notes=notes)


class Verifier:
    """One pass over the rounds of a record, and what is left beside them.

    Args:
        folder: Of the run.
        record: What it records.
    """

    def __init__(self, folder: RunFolder, record: Record) -> None:
        self._folder = folder
        self._record = record
        self._rounds = [*record.rounds, *_restored(record)]
        self._measured = Remeasure(folder.config, record.measurements)
        self._tally = restated.Tally(folder.config)
        stated = (record.summary or {}).get("rounds")
        self._summary_at = stated if isinstance(stated, int) else None
        self._initial = initial_params(folder.config)

    def replayed(self) -> Iterator[Found]:
        """Every round computed again, from the initial parameters (round 0) on."""
        yield 0, tuple(self._after(None, self._initial))
        for line, again in zip(self._rounds, replay(self._folder.config, self._rounds), strict=False):
            if again.differences:
                yield again.round, again.differences
                return
            yield again.round, (*_metrics(line, again.metrics), *self._after(line, again.params))

    def unplayed(self, *, measure: bool) -> Iterator[Found]:
        """Every round, as far as it can be judged without folding its updates.

        Args:
            measure: Numerics are those of here: rows are measured again, and updates that hold no noise are
                computed again, each from the parameters of its round's checkpoint.
        """
        config, kept = self._folder.config, self._at_start() if measure else {}
        yield 0, tuple(self._after(None, kept.get("params")))
        chain = Chain(config, params_sha256(self._initial))
        beside = Beside(config) if measure and not config.privacy.noisy else None
        for line in self._rounds:
            if why := chain.ends(line):
                yield line.round, (why,)
                return
            sidecar, before = self._record.sidecars.get(line.round), kept
            kept = arrays_of(self._folder, sidecar) if sidecar and measure else {}
            found = [*chain.faults(line)]
            if beside is not None:
                found += beside.faults(line, before.get("params"), before.get("control"))
            yield line.round, (*found, *self._after(line, kept.get("params")))

    def _at_start(self) -> Mapping[str, F8]:
        """What a checkpoint of round 0 holds."""
        control = initial_control(self._folder.config, self._initial.size)
        return {"params": self._initial, **({} if control is None else {"control": control.value})}

    def loose_ends(self) -> Iterator[tuple[int, str]]:
        """What is recorded beside the rounds, and does not fit them."""
        record, config = self._record, self._folder.config
        last = max((line.round for line in record.rounds), default=0)
        committed = max(record.sidecars, default=0)
        if committed > last + 1:
            yield last + 1, f"round {committed} has a checkpoint, but metrics.jsonl ends with round {last}"
        for fault in restated.ending(config, record):
            yield last, fault
        for round_ in self._measured.left():
            yield round_, f"measurements of round {round_} are recorded, the round is not"
        if record.summary is not None:
            for fault in restated.measured(record.summary, record.measurements):
                yield last, fault

    def _after(self, line: Played | None, params: F8 | None) -> Iterator[str]:
        """What is recorded after a round (None: before round 1), with its parameters if they are known."""
        record, tally, round_ = self._record, self._tally, line.round if line else 0
        if line is not None:
            if record.served:
                yield from restated.served(line, tally)
            tally.add(line)
        sidecar = record.sidecars.get(round_)
        if sidecar is not None:
            yield from tally.sidecar(sidecar, line.line if line else None)
        yield from self._measurements(round_, params)
        if record.summary is not None and self._summary_at == round_:
            yield from tally.summary(record.summary, self._folder.run_id.hex())

    def _measurements(self, round_: int, params: F8 | None) -> Iterator[str]:
        went_on = round_ < len(self._rounds) and self._somebody_left(round_)
        due = went_on or restated.finished(self._record)
        away = frozenset(self._tally.quarantine.agents)
        yield from self._measured.differences(round_, params, away, due=due)

    def _somebody_left(self, round_: int) -> bool:
        """The plain loop evaluates on those who were there, if they may be asked still."""
        there = self._rounds[max(0, round_ - 1)].eligible
        return not self._tally.quarantine.agents.issuperset(there)


def _before(folder: RunFolder, damage: Damaged) -> Verification:
    """A difference in the rounds before the first damaged checkpoint; without one, raises what is damaged."""
    rest = damage.rest
    if rest is None or damage.first == 0 or _private(folder, rest) or _devices(rest.rounds):
        raise damage
    if any(_foreign(rest.rounds)):
        raise damage
    for round_, found in Verifier(folder, rest).replayed():
        if round_ >= damage.first:
            break
        if found:
            return Verification(
                outcome="different", rounds=max(0, round_ - 1), round=round_, differences=found
            )
    equal = f"the rounds before round {damage.first} are equal"
    raise ProgramError(damage.code, f"{damage.message}; {equal}", damage.hint)


def _restored(record: Record) -> list[Played]:
    """The newest round, if only its checkpoint was committed: a resume restores its line from there."""
    sidecar = record.sidecars.get(len(record.rounds) + 1)
    if sidecar is None or sidecar.line is None:
        return []
    try:
        return [msgspec.convert({**sidecar.line, "line": sidecar.line}, Played, str_keys=True)]
    except msgspec.ValidationError:
        return []


def _metrics(line: Played, again: Mapping[int, Mapping[str, float]]) -> Iterator[str]:
    """The metrics of the updates: a server records means, the plain loop all of them."""
    expected: dict[str, Any] = {str(agent): metrics for agent, metrics in again.items()}
    if line.arrivals is not None:
        expected = {**mean_metrics(again[part.agent] for part in line.contributors)}
    yield from differing("metrics", line.metrics, expected, "is computed")


def _private(folder: RunFolder, record: Record) -> str:
    """Whose updates hold noise that nobody else can compute."""
    if not folder.config.privacy.noisy:
        return ""
    agents = sorted({part.agent for line in record.rounds for part in line.contributors})
    names = ", ".join(map(str, agents)) or "of the run"
    return f"agents {names} added noise from secrets that never left them"


def _devices(rounds: list[Played]) -> str:
    """Whose updates come from a real plant."""
    found = {agent for line in rounds for agent, own in line.overrides.items() if own.device is not None}
    names = ", ".join(map(str, sorted(found)))
    return f"agents {names} are devices" if len(found) > 1 else f"agent {names} is a device" if found else ""


def _foreign(rounds: list[Played]) -> Iterator[str]:
    """Agents whose numerics are not this machine's, each named once."""
    here = fingerprint()
    seen: set[tuple[str, int]] = set()
    for line in rounds:
        for there, agents in line.fingerprints.items():
            for agent in agents:
                if there != here and (there, agent) not in seen:
                    seen.add((there, agent))
                    yield f"agent {agent} computed with {there}, this machine computes with {here}"


def _notes(record: Record) -> Iterator[str]:
    for file, lines in record.mended.items():
        yield f"damaged lines that resumes took out of {file}: {lines}; see journal_mended in events.jsonl"
