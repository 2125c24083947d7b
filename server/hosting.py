"""Initializations for onboarders: INIT out, REPORT in. Pure."""

from typing import Any, Literal

from edge_fed.config import parse_goals
from edge_fed.params import F8, crc32
from protocol.messages import Ack, Error, Init, Message, Onboard, Report, Shutdown
from server import events as e
from server.members import Member, repeat_after_s
from server.onboarding import Onboarding
from server.room import Room


class Hosting:
    """Serves whoever asks for an initialization, and collects the reports.

    Args:
        room: What the server's parts share.
        reports: Of an earlier server process.
    """

    def __init__(self, room: Room, reports: tuple[dict[str, Any], ...] = ()) -> None:
        goals = parse_goals(room.config.onboarding.goals)
        self.onboarding = Onboarding(goals, room.ledger.params.nbytes, room.rules)
        self._room = room
        self._damaged: set[int] = set()  # rounds whose damage was said
        room.needed = self.onboarding.needed
        for report in reports:
            self.onboarding.restore(report)

    def outstanding(self) -> tuple[int, ...]:
        """Goals whose report is due."""
        return self.onboarding.outstanding(self._room.members.onboarders(), self._room.last_round)

    def at_work(self) -> tuple[int, ...]:
        """Goals whose report comes although no further round does."""
        room = self._room
        return self.onboarding.at_work(room.members.onboarders(), room.ledger.committed, room.last_round)

    def ask(self, member: Member, message: Onboard, now: float) -> None:
        """An onboarder wants an initialization."""
        last = self._room.last_round
        if message.at == "round" and message.round > last:
            why = f"there is no round {message.round}; this run has the rounds 0 (untrained) to {last}"
            self._turn_away(member, f"{why}: choose one of them with --at")
            return
        self.onboarding.ask(member, message)
        self.serve(now)

    def serve(self, now: float) -> None:
        """Hands out what can be handed out now."""
        room = self._room
        if room.committing:  # the newest parameters do not count yet
            return
        done = room.ledger.committed
        for incarnation, round_ in self.onboarding.servable(done, room.last_round, now):
            member = room.members.by_incarnation(incarnation)
            if member is not None and round_ == done:
                self._hand_out(member, round_, room.ledger.params, now)
            elif member is not None:
                self.onboarding.loading(incarnation, round_)
                room.out.put(e.Load(round_))

    def loaded(self, event: e.Loaded, now: float) -> None:
        """An earlier checkpoint was read for those who asked for it."""
        round_, params = event.round, event.params
        if event.damage and round_ not in self._damaged:
            self._damaged.add(round_)
            text = f"the checkpoint of round {round_} is damaged: {event.damage}"
            self._room.out.log("error", text, hint="restore its two files from a copy of the run folder")
        why = (
            "is damaged: choose another round with --at" if event.damage else "is not kept in this run folder"
        )
        for incarnation in self.onboarding.loaded(round_):
            member = self._room.members.by_incarnation(incarnation)
            if member is not None and params is not None:
                self._hand_out(member, round_, params, now)
            elif member is not None:
                self._turn_away(member, f"the checkpoint of round {round_} {why}")

    def remind(self, member: Member, now: float) -> None:
        """Sends INIT again to an onboarder that evidently never got it."""
        size, pause_s = self._room.ledger.params.nbytes, repeat_after_s(self._room.config.federation)
        if self.onboarding.lacks(member) and member.overdue(size, pause_s, now):
            self.onboarding.again(member)
        self.serve(now)

    def report(self, member: Member, message: Report) -> bool:
        """Records an onboarder's rows and answers; returns whether they are new: a resend changes nothing."""
        room = self._room
        fault = self.onboarding.fault(member, message, room.last_round)
        outcome: Literal["held", "refused"] = "refused" if fault else "held"
        room.out.send(member, Ack(of=message.kind, round=message.round, outcome=outcome, reason=fault))
        if fault:
            text = f"a report of agent {member.agent} is refused: {fault}"
            room.out.note("report_refused", text, "warning", agent=member.agent, round=message.round)
            return False
        row = self.onboarding.report(member, message)
        if row is None:
            return False
        room.out.put(e.Evaluation(row))
        text = f"agent {member.agent} reports {len(message.rows)} rows from round {message.round}"
        room.out.note("report", text, agent=member.agent, round=message.round)
        room.out.tell("report", agent=member.agent, rows=row["rows"])
        return True

    def place(self, member: Member) -> str:
        """What an onboarder that waits is told about its turn."""
        place = self.onboarding.place(member)
        are = "onboarder is" if place == 1 else "onboarders are"
        return f"{place} {are} served before this one" if place else ""

    def _hand_out(self, member: Member, round_: int, params: F8, now: float) -> None:
        member.ask("init", round_, params.nbytes, now)
        init: Message = Init(round=round_, crc32=crc32(params), final=round_ >= self._room.last_round)
        self.onboarding.sent(member, round_, now)
        self._room.out.send(member, init, {"params": params})
        text = f"agent {member.agent} gets the parameters of round {round_}"
        self._room.out.note("initialized", text, agent=member.agent, round=round_)

    def _turn_away(self, member: Member, why: str) -> None:
        """This onboarder wants what the run cannot give: its request is refused, then its session ends.

        REJECT is legal before ONBOARD alone, so ERROR carries the refusal.
        """
        room = self._room
        room.out.note("turned_away", f"agent {member.agent}: {why}", "warning", agent=member.agent)
        word = Shutdown(outcome="failed", reason=why)
        self.onboarding.drop(member)
        room.out.send(member, Error(code="internal", message=why))
        room.out.send(member, word)
        room.members.remove(member, word)
