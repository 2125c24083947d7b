"""Measures again what a run recorded: evaluations in training, and the rows of onboarders.

Measurements draw from streams of their own (methods: EVALUATE), so the same parameters on the same machine
give the same rows to the last bit.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.federated.task import make_learner
from edge_fed.params import F8

Line = Mapping[str, Any]


class Remeasure:
    """The recorded measurements of a run, by the round whose parameters they are of.

    Args:
        config: The run's settings.
        lines: Of ``evaluations.jsonl``.
    """

    def __init__(self, config: RunConfig, lines: Iterable[Line]) -> None:
        self._config = config
        self._planned = overrides_by_goal(config)
        self._by_round: dict[int, list[Line]] = {}
        for line in lines:
            self._by_round.setdefault(int(line["round"]), []).append(line)

    def differences(self, round_: int, params: F8) -> Iterator[str]:
        """Measures the parameters of a round again and says which recorded rows differ."""
        for line in self._by_round.pop(round_, []):
            own = line.get("overrides")
            if line["kind"] == "onboarding":
                rows = self._onboard(int(line["agent"]), own, params)
                yield from _compare(f"onboarding of goal {line['agent']}", line["rows"], rows)
                continue
            for row in line["rows"]:
                agent = int(row["agent"])
                again = self._evaluate(agent, own and own.get(str(agent), {}), params)
                yield from _compare(f"evaluation of agent {agent}", [row], [again])

    def left(self) -> list[int]:
        """Rounds with measurements whose parameters were never computed again."""
        return sorted(self._by_round)

    def _overrides(self, agent: int, recorded: Mapping[str, Any] | None) -> Overrides:
        if recorded is None:
            return self._planned.get(agent, Overrides())
        return msgspec.convert(recorded, Overrides)

    def _evaluate(self, agent: int, own: Mapping[str, Any] | None, params: F8) -> dict[str, Any]:
        task = make_learner(self._config, agent, self._overrides(agent, own))
        return task.evaluate(params, self._config.seed, self._config.onboarding)

    def _onboard(self, agent: int, own: Mapping[str, Any] | None, params: F8) -> list[dict[str, Any]]:
        task = make_learner(self._config, agent, self._overrides(agent, own))
        return task.onboard(params, self._config.seed, self._config.onboarding, lambda _done: None).rows


def _compare(what: str, recorded: list[Line], again: list[dict[str, Any]]) -> Iterator[str]:
    if len(recorded) != len(again):
        yield f"{what}: {len(recorded)} rows were recorded, {len(again)} are measured"
        return
    for row, other in zip(recorded, again, strict=True):
        names = [name for name in other if row.get(name) != other[name]]
        if names:
            name = names[0]
            yield f"{what}: {name} {row.get(name)} was recorded, {other[name]} is measured"
