"""What a run folder says a second time, against its rounds: sidecars of checkpoints, and ``summary.json``.

Not compared, because it follows from nothing that is recorded: seconds and bytes; trajectories that an agent
says it spent on discarded work; counts of malformed, stale, doubled and dropped messages; numerics of agents
that never counted.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.federated.control_variate import ServerControl, initial_control
from edge_fed.federated.ending import MAX_SKIPPED
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.task import initial_params
from edge_fed.params import params_sha256
from edge_fed.program.accountant import statement
from edge_fed.program.exit_codes import ExitCode
from scenarios.recorded import Evaluated, Line, Measurement, Played, Record
from scenarios.remeasure import differing, same, show
from server.checkpoint import Sidecar
from server.ledger import Book
from server.onboarding import Onboarding
from server.retention import Retention

OUTCOMES = ("finished", "failed", "stopped")
ENDS_OF_FINISHED = (ExitCode.OK, ExitCode.STOPPED, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
"""Exit codes of complete runs: of their own, or of who stopped the server that had stayed."""


class Tally:
    """What follows from the rounds so far: the bookkeeping of a server that has committed them.

    Args:
        config: The run's settings.
    """

    def __init__(self, config: RunConfig) -> None:
        params = initial_params(config)
        control = initial_control(config, params.size)
        self._corrected = control is not None
        self._config = config
        self.round = 0
        self.params_sha256 = params_sha256(params)
        self.control_sha256 = _digest(control)
        self.last_counted: dict[int, int] = {}
        self.crc32: dict[int, int] = {}
        self.contributions: dict[int, int] = {}
        self.trajectories: dict[int, int] = {}
        self.quarantine = Quarantine(config.federation.quarantine_after)
        self.fingerprints: set[str] = set()
        self.skipped = 0
        self.control_since = 0

    def add(self, record: RoundRecord) -> None:
        """The next round."""
        self.round = record.round
        self.params_sha256, self.control_sha256 = record.params_sha256, record.control_sha256
        for part in record.contributors:
            self.last_counted[part.agent], self.crc32[part.agent] = record.round, part.crc32
            self.contributions[part.agent] = self.contributions.get(part.agent, 0) + 1
            self.trajectories[part.agent] = self.trajectories.get(part.agent, 0) + part.trajectories
        self.quarantine.judge(record)
        self.fingerprints.update(record.fingerprints)
        resumed = 0 if self.skipped >= MAX_SKIPPED else self.skipped  # it had ended; a person went on
        self.skipped = 0 if record.outcome == "folded" else resumed + 1
        if self._corrected and record.state_resets:
            self.control_since = record.round + 1

    def sidecar(self, found: Sidecar, line: Line | None) -> Iterator[str]:
        """What a checkpoint's sidecar says that does not follow.

        Args:
            found: The sidecar of the newest round so far.
            line: The round's line in ``metrics.jsonl``.
        """
        what = f"the checkpoint of round {found.round}"
        for name in ("params_sha256", "control_sha256"):
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                yield f"{what} has {name} {was[:12]}…, {now[:12]}… was recorded"
        if not same(found.line, line):
            yield f"{what} has another line of its round than metrics.jsonl"
        book = found.book
        again = {
            "last_counted": self.last_counted,
            "trajectories": self.trajectories,
            "skipped": self.skipped,
            "control_since": self.control_since,
            "strikes": self.quarantine.strikes,
            "quarantined": sorted(self.quarantine.agents),
        }
        yield from differing(what, {name: _plain(getattr(book, name)) for name in again}, again)
        yield from self._claims(what, book)

    def _claims(self, what: str, book: Book) -> Iterator[str]:
        """What a book says beyond the records: no less than they do."""
        if missing := sorted(self.fingerprints - set(book.fingerprints)):
            yield f"{what}: fingerprints {missing} were recorded, and are not in its book"
        for agent, counted in self.last_counted.items():
            last = book.last.get(agent)
            if last is None or not counted <= last.round <= self.round:
                yield f"{what}: the newest update of agent {agent} is not that of round {counted} or later"
            elif last.round == counted and (last.verdict, last.crc32) != ("folded", self.crc32[agent]):
                yield f"{what}: the update of agent {agent} in round {counted} was {last.verdict}, not folded"
        if self._config.privacy.noisy:
            for agent, count in self.contributions.items():
                seen = book.released[agent].count if agent in book.released else 0
                if seen < count:
                    yield f"{what}: {seen} updates of agent {agent} were seen, {count} counted"

    def summary(self, summary: Line, run_id: str) -> Iterator[str]:
        """What ``summary.json`` says of the rounds so far that does not follow."""
        config, algorithm = self._config, self._config.algorithm
        seen = summary.get("fingerprints")
        marks = [mark for mark in seen if isinstance(mark, str)] if isinstance(seen, list) else []
        again = {
            "name": config.name,
            "run_id": run_id,
            "rounds": self.round,
            "planned_rounds": algorithm.rounds,
            "params_sha256": self.params_sha256,
            "aggregation": algorithm.aggregation,
            "rule": algorithm.rule,
            "correction": algorithm.correction,
            "quarantined": sorted(self.quarantine.agents),
            "trajectories": dict(sorted(self.trajectories.items())),
            "bit_equal": len(marks) <= 1,
        }
        yield from differing("summary.json", {n: summary[n] for n in again if n in summary}, again)
        if missing := sorted(self.fingerprints - set(marks)):
            yield f"summary.json: fingerprints {missing} were recorded, and are not in it"
        yield from _privacy(config, summary.get("privacy"), self.contributions)


def measured(summary: Line, measurements: list[Measurement]) -> Iterator[str]:
    """What ``summary.json`` says of the measurements that does not follow.

    It was written when a process ended; a later one that was killed may have measured more.
    """
    found: list[str] = []
    for again in _measurements(summary, measurements):
        found = list(differing("summary.json", {n: summary[n] for n in again if n in summary}, again))
        if not found:
            return
    yield from found


def _measurements(summary: Line, measurements: list[Measurement]) -> Iterator[Line]:
    """The summary after each measurement after which it has the same counts; the last one is after all."""
    reports, best = Onboarding((), 0), Retention(0, 0)
    evaluation: Line = {}
    counts = {"evaluation_trajectories": 0, "onboarding_trajectories": 0}
    for place in range(len(measurements) + 1):
        if place:
            found = measurements[place - 1]
            line = {name: value for name, value in found.line.items() if name != "schema"}
            best.evaluated(line)
            if isinstance(found, Evaluated):
                evaluation = line
                counts["evaluation_trajectories"] += line.get("trajectories", 0)
            else:
                key = (found.agent, found.incarnation, found.round)
                replaced = reports.reports.get(key, {"trajectories": 0})["trajectories"]
                counts["onboarding_trajectories"] += found.trajectories - replaced
                spent = {"incarnation": found.incarnation, "trajectories": found.trajectories}
                reports.restore({**line, **spent})
        if place == len(measurements) or all(summary.get(name) == counts[name] for name in counts):
            yield {
                "evaluation": evaluation,
                "best": dict(zip(("round", "meta_objective"), best.best, strict=True)) if best.best else {},
                "onboarding": reports.rows(),
                **counts,
            }


def ending(config: RunConfig, record: Record) -> Iterator[str]:
    """Whether the run ended as ``summary.json`` says."""
    summary, rounds = record.summary, len(record.rounds)
    if summary is None:
        if record.ends:
            yield f"summary.json is missing, but events.jsonl says how the run ended: {record.ends[-1].why}"
        return
    said = tuple(summary.get(name) for name in ("exit_code", "outcome", "why"))
    if record.ends and said not in [(end.code, end.outcome, end.why) for end in record.ends]:
        end = record.ends[-1]
        yield (
            f"summary.json: {show(said[1])} with exit code {show(said[0])} ({show(said[2])}) was recorded, "
            f"{end.outcome} with {end.code} ({show(end.why)}) in events.jsonl"
        )
    stated = summary.get("rounds")
    if not isinstance(stated, int) or stated < 0 or stated > rounds:
        yield f"summary.json says {show(stated)} rounds, {rounds} are in metrics.jsonl"
    elif summary.get("outcome") == "finished" and stated < config.algorithm.rounds:
        yield f"summary.json says that the run finished after {stated} of {config.algorithm.rounds} rounds"
    if said[1] not in OUTCOMES or (said[1] == "finished" and said[0] not in ENDS_OF_FINISHED):
        yield f"summary.json: outcome {show(said[1])} and exit code {show(said[0])} do not fit each other"


def finished(record: Record) -> bool:
    """Whether ``summary.json`` says that the run came to its end."""
    return record.summary is not None and record.summary.get("outcome") == "finished"


def served(line: Played, before: Tally) -> Iterator[str]:
    """What a server's line of a round says beside the record, and what only a server can say.

    Args:
        line: The round's.
        before: The rounds before it.
    """
    counted = {part.agent for part in line.contributors}
    marked = {agent for agents in line.fingerprints.values() for agent in agents}
    if silent := sorted(counted - marked):
        yield f"no fingerprint of the agents {silent} was recorded, but they counted in that round"
    arrived = line.arrivals or ()
    there = counted if line.outcome == "folded" else set(line.cohort) - line.missing.keys()
    if len(set(arrived)) != len(arrived) or set(arrived) != there:
        yield f"arrivals {list(arrived)} were recorded, the updates of agents {sorted(there)} arrived"
    if extra := sorted(set(line.state_resets) - counted):
        yield f"state_resets {extra} were recorded, but these agents did not count in that round"
    if extra := sorted(set(line.state_resets) - before.last_counted.keys()):
        yield f"state_resets {extra} were recorded, but no update of these agents had counted before"


def _privacy(config: RunConfig, said: Any, counted: Mapping[int, int]) -> Iterator[str]:
    """The stated guarantee, computed again; the numbers of updates are at least those that counted."""
    if not config.privacy.noisy or not isinstance(said, Mapping):
        if config.privacy.noisy or said is not None:
            yield f"summary.json: privacy {show(said)} was recorded, not what the run's settings promise"
        return
    agents = said.get("agents")
    try:
        found = {int(agent): int(entry["updates"]) for agent, entry in dict(agents or {}).items()}
        again = statement(config.privacy, found)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        yield f"summary.json: the privacy of each agent cannot be read: {error!r}"
        return
    for agent, count in counted.items():
        if found.get(agent, 0) < count:
            yield f"summary.json: {found.get(agent, 0)} updates of agent {agent} were seen, {count} counted"
    yield from differing("summary.json: privacy", said, again or {})


def _digest(control: ServerControl | None) -> str:
    return "" if control is None else params_sha256(control.value)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
