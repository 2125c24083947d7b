"""Evaluations in training: EVALUATE out, REPORT in, the average recorded. Pure."""

from collections.abc import Callable
from typing import Any

from edge_fed.config import changed
from edge_fed.params import crc32
from protocol.messages import Evaluate, Heartbeat, Report
from server import events as e
from server.evaluation import Evaluation
from server.members import Member, repeat_after_s
from server.room import Room

DEVICE = "a device is not measured"


class Measuring:
    """At most one running evaluation.

    Args:
        room: What the server's parts share.
        evaluated: Rounds whose evaluation is recorded already.
        done: Called when an evaluation has ended.

    Attributes:
        evaluation: The running one.
        latest: The newest average of this process; empty: none yet.
        trajectories: Sampled in this process's evaluations.
    """

    def __init__(self, room: Room, evaluated: frozenset[int], done: Callable[[float], None]) -> None:
        self.evaluation: Evaluation | None = None
        self.latest: dict[str, Any] = {}
        self.trajectories = 0
        self._room = room
        self._overrides: dict[int, dict[str, Any]] = {}
        self._evaluated = set(evaluated)
        self._done = done

    def due(self, round_: int) -> bool:
        """Whether the parameters of this round must be evaluated still.

        Never in a run with private noise: what agents measure says of their data what the noise hides.
        """
        if self._room.config.privacy.noisy:
            return False
        every = self._room.config.federation.evaluate_every
        wanted = round_ in (0, self._room.last_round) or (every > 0 and round_ % every == 0)
        return wanted and round_ not in self._evaluated

    def start(self, round_: int, now: float) -> None:
        """Asks every training agent that is here."""
        room = self._room
        until = now + room.config.federation.round_deadline_s
        self.evaluation = Evaluation(round_, room.members.eligible(), until, room.rules)
        what, ends = f"evaluations of round {round_}", "the average is taken without them"
        room.watch.begin(what, self._waiting, until, ends, now)
        for agent in self.evaluation.asked:
            member = room.members.training[agent]
            if (device := member.overrides.device) is not None:  # hundreds of episodes, for a figure
                if device.saves and round_ == room.last_round:
                    self.ask(member, now)  # nobody waits for it: its adaptation may take days
                self.evaluation.excuse(agent, DEVICE)
            self.ask(member, now)
        self.settle(now)

    def ask(self, member: Member, now: float) -> None:
        """Sends EVALUATE to a member whose report is wanted."""
        evaluation, params = self.evaluation, self._room.ledger.params
        if evaluation is not None and evaluation.expects(member.agent):
            member.ask("evaluate", evaluation.round, params.nbytes, now)
            message = Evaluate(round=evaluation.round, crc32=crc32(params))
            self._room.out.send(member, message, {"params": params})

    def remind(self, member: Member, beat: Heartbeat, now: float) -> None:
        """Sends EVALUATE again to a member that evidently never got it."""
        evaluation = self.evaluation
        if evaluation is None or not evaluation.expects(member.agent) or beat.phase != "idle":
            return
        size, pause_s = self._room.ledger.params.nbytes, repeat_after_s(self._room.config.federation)
        if member.asked != ("evaluate", evaluation.round) or member.overdue(size, pause_s, now):
            self.ask(member, now)

    def report(self, member: Member, message: Report, now: float) -> None:
        """Takes a report; one that was not asked for, or that is malformed, changes nothing."""
        if self.evaluation is None or self.evaluation.round != message.round:
            return
        self._overrides[member.agent] = changed(member.overrides)
        fault = self.evaluation.take(member.agent, message)
        if fault:
            text = f"the report of agent {member.agent} is refused: {fault}"
            self._room.out.note("refused", text, "warning", agent=member.agent, reason=fault)
        self.settle(now)

    def excuse(self, agent: int, reason: str, now: float) -> None:
        """Gives an agent's report up."""
        if self.evaluation is not None:
            self.evaluation.excuse(agent, reason)
            self.settle(now)

    def settle(self, now: float) -> None:
        """Ends the running evaluation if nobody is waited for."""
        if self.evaluation is None or self.evaluation.waiting:
            self._room.watch.changed(now)
            return
        summary, self.evaluation = self.evaluation.summary(), None
        summary["overrides"] = {row["agent"]: self._overrides[row["agent"]] for row in summary["rows"]}
        out = self._room.out
        self.latest = summary
        self.trajectories += summary.get("trajectories", 0)
        self._room.watch.end()
        self._evaluated.add(summary["round"])
        out.put(e.Evaluation(summary))
        out.log("info" if summary["n"] else "warning", _line(summary))
        out.tell("evaluation", **summary)
        self._done(now)

    def _waiting(self) -> tuple[int, ...]:
        return self.evaluation.waiting if self.evaluation else ()


def _line(summary: dict[str, Any]) -> str:
    if not summary["n"]:
        return f"evaluation of round {summary['round']}: no agent reported"
    values = [
        f"{name.replace('_', ' ')} {summary[name]:.4f}"
        for name in ("meta_objective", "expected_return", "success")
        if summary[name] is not None
    ]
    return f"evaluation of round {summary['round']}: {', '.join(values)} (mean of {summary['n']} agents)"
