"""An evaluation in training: the server owns no environment, so the agents measure and it averages. Pure."""

from typing import Any

from edge_fed.summaries import evaluation_summary
from protocol.messages import Report
from server.rows import Rules


class Evaluation:
    """One evaluation between EVALUATE and the last REPORT.

    Args:
        round_: Whose parameters are measured.
        asked: Agents that are asked, ascending.
        deadline: Monotonic seconds after which it ends without the rest.
        rules: What a row must be.
    """

    def __init__(self, round_: int, asked: tuple[int, ...], deadline: float, rules: Rules) -> None:
        self._rules = rules
        self.round = round_
        self.asked = asked
        self.deadline = deadline
        self.missing: dict[int, str] = {}
        self._rows: dict[int, dict[str, Any]] = {}

    @property
    def waiting(self) -> tuple[int, ...]:
        """Agents whose report is neither there nor given up."""
        return tuple(a for a in self.asked if a not in self._rows and a not in self.missing)

    def expects(self, agent: int) -> bool:
        """Whether this agent's report is still wanted."""
        return agent in self.waiting

    def take(self, agent: int, report: Report) -> str:
        """Keeps a report; a later one of the same agent replaces it.

        Returns:
            What is wrong with it: then the agent is given up; empty if it is kept.
        """
        if agent not in self.asked:
            return f"agent {agent} was not asked"
        fault = self._rules.evaluation(agent, report)
        if fault:
            self.excuse(agent, f"refused: {fault}")
        else:
            self._rows[agent] = dict(report.rows[0])
            self.missing.pop(agent, None)
        return fault

    def excuse(self, agent: int, reason: str) -> None:
        """Gives an agent's report up."""
        if self.expects(agent):
            self.missing[agent] = reason

    def summary(self) -> dict[str, Any]:
        """The averages over the agents that reported, in agent order, and how many those are."""
        rows = [self._rows[agent] for agent in sorted(self._rows)]
        head = {"kind": "evaluation", "round": self.round, "missing": dict(self.missing)}
        averages = evaluation_summary(rows) if rows else {"n": 0}
        return {**head, **averages, "rows": rows}
