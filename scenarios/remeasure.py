"""Measures again what a run recorded: evaluations in training, and the rows of onboarders.

Measurements draw from streams of their own (methods: EVALUATE), so the same parameters on the same machine
give the same rows to the last bit; averages are computed again from the rows.

Which rounds have an evaluation follows from the settings. Who was asked does not: an agent that came or left
while one ran leaves no trace in the rounds' records. So a row that was taken out together with its agent's
name, its share of the averages and of ``summary.json`` is not found, except before round 1 of a run that
waited for all its agents.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.errors import EdgeFedError
from edge_fed.federated.task import make_learner
from edge_fed.params import F8
from edge_fed.summaries import evaluation_summary
from scenarios.recorded import Evaluated, Line, Measurement, Reported

HEAD = ("schema", "kind", "round", "missing", "rows", "overrides")  # of an evaluation; the rest are averages


class Remeasure:
    """The recorded measurements of a run, by the round whose parameters they are of.

    Args:
        config: The run's settings.
        measurements: Lines of ``evaluations.jsonl``.
    """

    def __init__(self, config: RunConfig, measurements: Iterable[Measurement]) -> None:
        self._config = config
        self._planned = overrides_by_goal(config)
        self._by_round: dict[int, list[Measurement]] = {}
        for measurement in measurements:
            self._by_round.setdefault(measurement.round, []).append(measurement)

    def differences(
        self,
        round_: int,
        params: F8 | None,
        quarantined: frozenset[int] = frozenset(),
        *,
        due: bool = False,
    ) -> Iterator[str]:
        """Measures the parameters of a round again and says which recorded figures differ.

        Args:
            round_: The round.
            params: Its parameters, ``[d]``; None: not known, the rows themselves are not compared.
            quarantined: Agents in quarantine after it; nobody asks them.
            due: The run went on behind it: if the settings ask for an evaluation of it, there must be one.
        """
        evaluations = 0
        for measurement in self._by_round.pop(round_, []):
            try:
                if isinstance(measurement, Reported):
                    yield from self._report(measurement, params)
                    continue
                evaluations += 1
                yield from self._evaluation(measurement, params, quarantined)
            except (EdgeFedError, TypeError, ValueError) as error:
                yield f"measurements of round {round_} cannot be taken again: {error}"
        wanted = is_evaluated(self._config, round_)
        if due and wanted and not evaluations:
            yield f"no evaluation of round {round_} is recorded, and the run went on behind it"
        if evaluations > 1:
            yield f"round {round_} has {evaluations} evaluations"
        if evaluations and not wanted:
            yield f"an evaluation of round {round_} was recorded, the run's settings have none"

    def left(self) -> list[int]:
        """Rounds with measurements whose parameters were never computed again."""
        return sorted(self._by_round)

    def _report(self, found: Reported, params: F8 | None) -> Iterator[str]:
        own = self._overrides(found.agent, found.overrides)
        if params is None or own.device is not None:  # nobody plays its episodes again
            return
        task = make_learner(self._config, found.agent, own)
        again = task.onboard(params, self._config.seed, self._config.onboarding, lambda _done: None)
        what = f"onboarding of goal {found.agent}"
        if found.rows or not self._config.privacy.noisy:  # private rows stay with their agent
            yield from _compare(what, found.rows, again.rows)
        spent = again.adapt_trajectories + again.eval_trajectories
        if found.trajectories != spent:
            yield f"{what}: trajectories {found.trajectories} was recorded, {spent} is measured"

    def _evaluation(self, found: Evaluated, params: F8 | None, quarantined: frozenset[int]) -> Iterator[str]:
        agents = [row.get("agent") for row in found.rows]
        for row in found.rows:
            agent = row.get("agent")
            if not isinstance(agent, int):
                yield f"evaluation: a row of agent {agent!r} was recorded"
                return
            if params is None:
                continue
            own = None if found.overrides is None else found.overrides.get(agent)
            again = self._evaluate(agent, own, params)
            yield from _compare(f"evaluation of agent {agent}", [row], [again])
        yield from self._asked(found, agents, quarantined)
        yield from _averages(found)

    def _asked(self, found: Evaluated, agents: Sequence[Any], quarantined: frozenset[int]) -> Iterator[str]:
        what = f"evaluation of round {found.round}"
        if agents != sorted(set(agents)):
            yield f"{what}: rows of agents {agents} were recorded, not each once and ascending"
        if extra := sorted(set(agents) & found.missing.keys()):
            yield f"{what}: agents {extra} were recorded with a row and as missing"
        asked = {*agents, *found.missing}
        if strangers := sorted(asked - self._planned.keys()):
            yield f"{what}: agents {strangers} were asked, but are in no [[agents]] table"
        if extra := sorted(asked & quarantined):
            yield f"{what}: agents {extra} were asked, but are in quarantine"
        if found.overrides is not None and (extra := sorted(found.overrides.keys() ^ set(agents))):
            yield f"{what}: rows and overrides are not of the same agents: {extra}"
        quorum = self._config.federation.quorum or len(self._planned)
        absent = sorted(self._planned.keys() - asked)
        if absent and found.round == 0 and quorum >= len(self._planned):
            yield f"{what}: agents {absent} were there and are neither with a row nor missing"

    def _overrides(self, agent: int, recorded: Overrides | None) -> Overrides:
        return self._planned.get(agent, Overrides()) if recorded is None else recorded

    def _evaluate(self, agent: int, own: Overrides | None, params: F8) -> Line:
        task = make_learner(self._config, agent, self._overrides(agent, own))
        return task.evaluate(params, self._config.seed, self._config.onboarding)


def is_evaluated(config: RunConfig, round_: int) -> bool:
    """Whether the settings ask for an evaluation of this round's parameters."""
    every, last = config.federation.evaluate_every, config.algorithm.rounds
    wanted = round_ in (0, last) or (every > 0 and round_ % every == 0)
    return wanted and not config.privacy.noisy


def _averages(found: Evaluated) -> Iterator[str]:
    again = evaluation_summary(found.rows) if found.rows else {"n": 0}
    recorded = {name: value for name, value in found.line.items() if name not in HEAD}
    yield from differing(f"evaluation of round {found.round}", recorded, again)


def _compare(what: str, recorded: Sequence[Mapping[str, Any]], again: Sequence[Line]) -> Iterator[str]:
    if len(recorded) != len(again):
        yield f"{what}: {len(recorded)} rows were recorded, {len(again)} are measured"
        return
    for row, other in zip(recorded, again, strict=True):
        found = list(differing(what, row, other, "is measured"))
        yield from found[:1]


def differing(
    what: str, recorded: Mapping[str, Any], again: Mapping[str, Any], word: str = "follows"
) -> Iterator[str]:
    """Names whose values differ, or that only one side has; JSON has no NaN, and writes null for it."""
    again = msgspec.to_builtins(again, str_keys=True)
    for name in (*again, *(name for name in recorded if name not in again)):
        was, now = recorded.get(name, "nothing"), again.get(name, "nothing")
        if not same(was, now):
            yield f"{what}: {name} {show(was)} was recorded, {show(now)} {word}"


def same(recorded: Any, again: Any) -> bool:
    """Equal to the bit, NaN and infinities as JSON can write them."""
    if isinstance(again, float) and again - again != 0:
        return recorded is None or recorded == again or (recorded != recorded and again != again)
    if isinstance(again, Mapping) and isinstance(recorded, Mapping):
        return again.keys() == recorded.keys() and all(same(recorded[key], again[key]) for key in again)
    if isinstance(again, list | tuple) and isinstance(recorded, list | tuple):
        return len(again) == len(recorded) and all(map(same, recorded, again))
    return bool(recorded == again)


def show(value: Any) -> str:
    """A value in a line for people: cut where it is long."""
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
