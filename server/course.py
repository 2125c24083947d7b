"""The course of a run, from the first agent to the last report. Pure.

    joining -> [evaluating] -> (held) -> running -> committing -> ... -> onboarding -> serving -> finished

Every step that may last has a deadline in `Watch`, and an outcome when that passes.
"""

from edge_fed.federated.ending import (
    MAX_SKIPPED,
    all_quarantined,
    never_trained,
    too_few_here,
    too_many_skipped,
)
from edge_fed.program.exit_codes import ExitCode
from protocol.messages import Shutdown
from server import events as e
from server.causes import NOBODY_CAME, RUN, Cause
from server.hosting import Hosting
from server.ledger import Resume
from server.measuring import Measuring
from server.reception import dismissed, quarantined
from server.room import Room
from server.training import Training

TOO_FEW = "the run ends: too few agents"


class Course:
    """Where the run stands, and the steps between.

    Args:
        room: What the server's parts share.
        holds: Rounds before which the supervisor is asked.
        serve: Stay for onboarders after the run.
        resume: What an earlier server process left; None: a new run.

    Attributes:
        phase: As HEARTBEAT says it.
        ended: `Exit` was asked for.
    """

    def __init__(self, room: Room, holds: frozenset[int], serve: bool, resume: Resume | None) -> None:
        self.room = room
        self.training = Training(room, resume)
        self.measuring = Measuring(room, resume.evaluated if resume else frozenset(), self.next)
        self.hosting = Hosting(room, resume.reports if resume else ())
        self.phase = "joining"
        self.ended = False
        self._holds = set(holds)
        self._serve = serve
        self._resume = resume
        self._returning = room.ledger.quarantine.admitted(resume.expected) if resume else ()
        self._joined = False
        self._fails = ""  # why the run ends as soon as the onboarders at work have reported
        self._cause = RUN

    @property
    def serves(self) -> bool:
        """The run is complete, and the server stays for onboarders: somebody has to stop it."""
        return self.phase == "serving"

    @property
    def complete(self) -> str:
        """That the run came to its end, and what a person must know of it."""
        untrained = never_trained(self.room.last_round, len(self.room.ledger.last_counted))
        return f"the run is complete, but {untrained}" if untrained else "the run is complete"

    # --- joining -----------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """The socket is bound: commit the initial parameters, or go on where the run stood."""
        ledger = self.room.ledger
        if ledger.committed < 0:
            self.room.commit(e.Commit(0, ledger.params, ledger.book()))
            return
        self.room.out.committed = ledger.committed
        if ledger.skipped >= MAX_SKIPPED:  # the run ended for that; whoever resumes it knows better
            ledger.skipped = 0
        if ledger.committed >= self.room.last_round and not self.measuring.due(ledger.committed):
            self._finish_training(now)
        else:
            self._join(now)

    def _join(self, now: float) -> None:
        """Waits for the agents the run starts with; after a restart, for those that were there."""
        if self._nobody_left(now):
            return
        if self.room.ledger.committed > 0 and not self._returning:  # it had its quorum, and then lost all
            self._await_anybody(now)
            self.arrived(now)
            return
        federation = self.room.config.federation
        self.phase = "joining"
        what, until, ends = f"{self._need()} training agents", now + federation.join_deadline_s, TOO_FEW
        if self._returning:
            what, until = "training agents to come back", now + federation.round_deadline_s
            ends = "the run goes on with those who are here"
        self.room.watch.begin(what, self._absent, until, ends, now, after_s=0.5)
        self.arrived(now)

    def _nobody_left(self, now: float) -> bool:
        """Ends the run if every training agent is in quarantine: nobody can come."""
        quarantined, planned = self.room.ledger.quarantine.agents, self.room.admission.planned
        why = all_quarantined(quarantined, planned, self.training.last_refusal)
        if why:
            self._give_up(why, RUN, now)
        return bool(why)

    def _await_anybody(self, now: float) -> None:
        """Nobody is left to go on with: the run waits for the first who comes."""
        self.phase, self._joined = "joining", True
        until = now + self.room.config.federation.join_deadline_s
        self.room.watch.begin("any training agent", self._absent, until, TOO_FEW, now, after_s=0.5)

    def _expected(self) -> tuple[int, ...]:
        return self._returning or tuple(self.room.admission.planned)

    def _need(self) -> int:
        if self._returning:
            return 1  # the run had its quorum when it began
        quorum = self.room.config.federation.quorum or len(self.room.admission.planned)
        return min(quorum, len(self._expected()))

    def _absent(self) -> tuple[int, ...]:
        here = set(self.room.members.eligible())
        return tuple(agent for agent in self._expected() if agent not in here)

    def arrived(self, now: float) -> None:
        """A training agent became READY, or left: start if everybody needed is here."""
        if self.phase != "joining" or self.room.committing:
            return
        self.room.watch.changed(now)
        here = len(self.room.members.eligible())
        if self._joined:  # a boundary had found nobody
            enough = here > 0
        elif self._returning:
            enough = not self._absent()
        else:
            enough = here >= self._need()
        if enough:
            self._go(now)

    def more_patience(self, now: float) -> None:
        """A READY or a report restarts the deadline of the join phase and of onboarding."""
        if self.phase == "onboarding" or (self.phase == "joining" and not self._returning):
            self.room.watch.postpone(now + self.room.config.federation.join_deadline_s)

    def _go(self, now: float) -> None:
        self._joined = True
        self.room.watch.end()
        self.next(now)

    # --- boundaries --------------------------------------------------------------------------------

    def committed(self, round_: int, now: float) -> None:
        """A checkpoint is on disk."""
        self.room.committing = False
        self.room.ledger.commit(round_)
        self.room.out.committed = round_
        self.hosting.serve(now)
        if self._joined:
            self.next(now)
        else:
            self._join(now)

    def _send_quarantined_away(self) -> None:
        """Agents that the committed round put in quarantine: nobody asks them or waits for them again."""
        room = self.room
        for agent in sorted(room.ledger.quarantine.agents & room.members.training.keys()):
            member, word = room.members.training[agent], quarantined(agent)
            room.out.tell("lost", agent=agent, role="train", why="quarantined")
            room.out.send(member, word)
            room.members.remove(member, word)

    def next(self, now: float) -> None:
        """The boundary after the newest committed round: what comes now?"""
        done = self.room.ledger.committed
        self._send_quarantined_away()
        if self._nobody_left(now):
            return
        if why := too_many_skipped(self.room.ledger.skipped):
            self._give_up(why, RUN, now)
            return
        if self.measuring.due(done):
            self.phase = "evaluating"
            self.measuring.start(done, now)
        elif done >= self.room.last_round:
            self._finish_training(now)
        elif done + 1 in self._holds:
            self._hold(done + 1, now)
        else:
            self._open(done + 1, now)

    def _hold(self, round_: int, now: float) -> None:
        self.phase = "held"
        until = now + self.room.config.federation.join_deadline_s
        what = f"the supervisor's word before round {round_}"
        self.room.watch.begin(what, tuple, until, "the run fails", now)
        self.room.out.put(e.Journal("held", {"round": round_}))
        self.room.out.tell("held", round=round_)

    def proceed(self, round_: int, now: float) -> None:
        """The supervisor lets this round open, now or when it comes."""
        self._holds.discard(round_)
        if self.phase == "held" and self.room.ledger.committed + 1 == round_:
            self._go(now)

    def _open(self, round_: int, now: float) -> None:
        self._resume, self._returning = None, ()
        self.phase = "running"
        if not self.training.open(round_, now):
            self._await_anybody(now)

    def never_back(self, agent: int, now: float) -> None:
        """An agent has left, or is known to be dead: after a restart, nobody waits for its return."""
        if self.phase != "joining" or agent not in self._returning:
            return
        self._returning = tuple(other for other in self._returning if other != agent)
        if not self._returning:
            self._await_anybody(now)
        self.arrived(now)

    def excuse(self, agent: int, reason: str, now: float) -> None:
        """A training agent cannot answer: nobody waits for it any longer."""
        self.training.excuse(agent, reason, now)
        self.measuring.excuse(agent, reason, now)

    # --- after round K -----------------------------------------------------------------------------

    def _finish_training(self, now: float) -> None:
        room = self.room
        finished = self._resume is not None and self._resume.finished
        self.phase, self._joined = "onboarding", True
        room.reception.training_over = True
        for member in list(room.members.training.values()):
            word = dismissed(self.complete)
            room.out.send(member, word)
            room.members.remove(member, word)
        self._serve = self._serve or finished
        if self._serve:  # it stays for whoever comes, so that nobody need be waited for
            self._finish(self.complete)
            self.hosting.serve(now)
            return
        self._await_reports(now)
        self.hosting.serve(now)
        self.settle(now)

    def _give_up(self, why: str, cause: Cause, now: float) -> None:
        """The run ends for want of agents, but who onboards in the middle of it may report first."""
        self.phase, self._fails, self._cause = "onboarding", why, cause
        self._await_reports(now)
        self.settle(now)

    def _await_reports(self, now: float) -> None:
        until = now + self.room.config.federation.join_deadline_s
        what, ends = "reports of onboarders", "the run ends without them"
        if not self._fails:
            ends += " (federation.join_deadline_s says when, onboarding.goals whom it waits for)"
        self.room.watch.begin(what, self._outstanding, until, ends, now, after_s=0.5)

    def _outstanding(self) -> tuple[int, ...]:
        return self.hosting.at_work() if self._fails else self.hosting.outstanding()

    def settle(self, now: float) -> None:
        """Ends the run once everybody has reported who is to report before its end."""
        if self.phase == "onboarding" and not self._outstanding():
            self._finish(self.complete)
        else:
            self.room.watch.changed(now)

    def _finish(self, why: str, cause: Cause = RUN) -> None:
        if self._fails:
            self.end(ExitCode.QUORUM, "failed", self._fails, self._cause)
        elif self._serve:
            self.phase = "serving"
            self.room.watch.end()
            missing = self._outstanding()
            yet = f"; no report yet of the onboarders with goals {_names(missing)}" if missing else ""
            self.room.out.log("info", f"{why}; serving its parameters until stopped{yet}")
            self.room.out.tell("serving")
        else:
            self.end(ExitCode.OK, "finished", why, cause)

    # --- the end -----------------------------------------------------------------------------------

    def time_up(self, now: float) -> None:
        """The current wait has lasted as long as it may."""
        if self.training.round is not None:
            for agent in self.training.round.waiting:
                self.training.excuse(agent, "deadline", now)
        elif self.measuring.evaluation is not None:
            for agent in self.measuring.evaluation.waiting:
                self.measuring.excuse(agent, "deadline", now)
        elif self.phase == "held":
            why = "the supervisor did not answer at a round boundary"
            self.end(ExitCode.FAILED, "failed", why, NOBODY_CAME)
        elif self.phase == "onboarding":
            goals = _names(self._outstanding())
            self.room.out.log("warning", f"no report of the onboarders with goals {goals}")
            self._finish(f"{self.complete}; no reports of goals {goals} came", NOBODY_CAME)
        elif self.phase == "joining":
            self._join_time_up(now)

    def _join_time_up(self, now: float) -> None:
        here, need = len(self.room.members.eligible()), 1 if self._joined else self._need()
        only_measuring = self.room.ledger.committed >= self.room.last_round
        if self._returning and (here >= need or only_measuring):
            self._go(now)
            return
        if self._returning:  # whoever was there may need longer to be started again
            self._returning = ()
            self._await_anybody(now)
            return
        self._give_up(too_few_here(here, need, self._absent()), NOBODY_CAME, now)

    def end(self, code: ExitCode, outcome: e.Outcome, why: str, cause: Cause) -> None:
        """Sends everybody home; nothing happens after this."""
        word = Shutdown(outcome=outcome, reason=why)
        for challenge in self.room.members.challenges.values():
            self.room.out.outside(challenge.peer, word)
        for member in self.room.members.everybody():
            self.room.out.send(member, word)
        self.phase, self.ended = "finished", True
        self.room.watch.end()
        self.room.out.put(e.Exit(code, outcome, why, cause))

    def progress(self, now: float) -> str:
        """How far the run is, for agents that wait for its end."""
        done, last = max(0, self.room.ledger.committed), self.room.last_round
        if self._fails or self.training.began is None or done >= last:
            return self.room.watch.line(now)
        began, first = self.training.began
        each = (now - began) / max(1, done - first + 1)
        return f"round {done} of {last} is done, about {each * (last - done):.0f} s left"


def _names(agents: tuple[int, ...]) -> str:
    return ", ".join(map(str, agents)) or "nobody"
