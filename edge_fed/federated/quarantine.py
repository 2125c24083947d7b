"""Quarantine: agents whose updates are refused round after round are not asked any more in this run.

A round in which an update of an agent was refused is a strike: it was not finite, longer than
``max_update_norm``, of the wrong size, computed from other parameters, or altered on the way; the agent said
that it could not compute one; or it sent a second, different update. An update that counts, without such a
conflict, starts the count again; a round in which the agent was not asked or was late leaves it as it is.
After ``quarantine_after`` strikes in a row the agent is quarantined, from the next round until the run ends.
A restart of the agent or of the server does not lift it, or else the run would depend on restarts.

All of it follows from the rounds' records, so that the plain loop, the server and verify agree.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from edge_fed.federated.record import RoundRecord

REFUSED = ("refused", "error")
"""How the reasons of strikes begin, in `RoundRecord.missing`."""


class Quarantine:
    """Strikes of a run so far.

    Args:
        after: Strikes in a row that quarantine an agent; ``"off"``: none do.
        strikes: Agent -> its strikes in a row, as an earlier process left them.
        agents: Those in quarantine, as an earlier process left them.
    """

    def __init__(
        self,
        after: int | Literal["off"] = "off",
        strikes: Mapping[int, int] | None = None,
        agents: Iterable[int] = (),
    ) -> None:
        self.after = after
        self.strikes = dict(strikes or {})
        self.agents = set(agents)

    def admitted(self, eligible: Collection[int]) -> tuple[int, ...]:
        """Those of ``eligible`` who may be asked, ascending."""
        return tuple(sorted(set(eligible) - self.agents))

    def judge(self, record: RoundRecord) -> tuple[int, ...]:
        """Counts a round's strikes; returns the agents that are in quarantine from now on, ascending."""
        struck = {agent for agent, why in record.missing.items() if why.startswith(REFUSED)}
        struck.update(record.conflicts)
        for contribution in record.contributors:
            if contribution.agent not in struck:
                self.strikes.pop(contribution.agent, None)
        for agent in struck:
            self.strikes[agent] = self.strikes.get(agent, 0) + 1
        if self.after == "off":
            return ()
        new = sorted(agent for agent in struck - self.agents if self.strikes[agent] >= self.after)
        self.agents.update(new)
        return tuple(new)
