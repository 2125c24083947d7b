"""The open round: THETA out, UPDATE in, excuses, and the record that is committed. Pure."""

import msgspec

from edge_fed.config import Overrides, max_norm
from edge_fed.federated.aggregation import own_weights
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.robust import needed_updates
from edge_fed.params import F8, params_sha256
from edge_fed.profiles import lost
from protocol.messages import Ack, Error, Heartbeat, Theta, Update
from server import events as e
from server.causes import cause_of
from server.ledger import Ledger, Resume, Verdict
from server.members import Member, repeat_after_s
from server.room import Room
from server.rounds import OpenRound

ABSENT = "not back after the restart of the server"


def released(agent: int, ledger: Ledger) -> e.Journal:
    """The journal's line of an agent's private updates so far: the next checkpoint may never come."""
    return e.Journal("released", {"agent": agent, "seen": ledger.released[agent].count})


class Training:
    """At most one open round.

    Args:
        room: What the server's parts share.
        resume: What an earlier server process left.

    Attributes:
        round: The open round.
        last_refusal: Why the agent that was quarantined last was refused; empty: none was by this process.
        began: When the first round of this process opened, and its number.
        duplicates: Updates that came again and were held before.
    """

    def __init__(self, room: Room, resume: Resume | None) -> None:
        self.round: OpenRound | None = None
        self.last_refusal = ""
        self.began: tuple[float, int] | None = None
        self.duplicates = 0
        self._room = room
        room.ledger.quarantine.after = room.config.federation.quarantine_after
        self._resume = resume
        self._early: dict[int, tuple[Update, F8]] = {}
        self._owed: dict[int, int] = {}  # agents without a receipt -> round of their held update
        self._worked: dict[int, tuple[Overrides, str]] = {}

    def open(self, number: int, now: float) -> bool:
        """Opens a round, or goes on with one that an earlier process had opened.

        If nobody is available in it, it closes at once as skipped.

        Returns:
            False if there is nobody to ask.
        """
        room, config = self._room, self._room.config
        resume, self._resume = self._resume, None
        reopened = resume is not None and resume.round == number
        if resume is not None and reopened:
            eligible, asked = resume.eligible, resume.cohort
        else:
            eligible = room.members.eligible()
            asked = round_cohort(config, number, eligible)
        if not eligible:
            return False
        self.began = self.began or (now, number)
        self._worked.clear()
        self._owed.clear()
        need = needed_updates(config, len(asked))
        deadline = now + config.federation.round_deadline_s
        self.round = OpenRound(
            number,
            eligible,
            asked,
            room.ledger.params,
            config.algorithm,
            need,
            now,
            deadline,
            room.ledger.control,
            max_norm(config.federation),
            own_weights(config),
        )
        self.round.lost = lost(config, number, asked)
        if not reopened:
            fields = {"round": number, "eligible": eligible, "cohort": asked}
            room.out.put(e.Journal("round_opened", fields))
        room.out.tell("opened", round=number, cohort=asked)
        room.watch.begin(
            f"updates of round {number}", self.waiting, deadline, "the round goes on without them", now
        )
        early, self._early = self._early, {}
        for agent in asked:
            member = room.members.training.get(agent)
            if member is None or not member.present:
                self.round.excuse(agent, ABSENT)
            elif agent in early:
                if member.state_lost:  # the server before has told it to start from the initial state
                    self.round.resets.add(agent)
                self._offer(self.round, member, *early[agent])
            else:
                self.ask(member, now)
        self.settle(now)
        return True

    def waiting(self) -> tuple[int, ...]:
        """Agents whose update is waited for."""
        return self.round.waiting if self.round else ()

    def ask(self, member: Member, now: float) -> None:
        """Sends the open round's THETA to a member whose update is wanted."""
        round_, room = self.round, self._room
        if round_ is None or not round_.expects(member.agent):
            return
        if member.state_lost:
            round_.resets.add(member.agent)
        counted = room.ledger.last_counted.get(member.agent, 0)
        theta = Theta(
            round=round_.number,
            crc32=round_.theta_crc32,
            deadline_s=max(0.0, round_.deadline - now),
            last_counted=counted,
            state_reset=member.state_lost,
            control_reset=counted < room.ledger.control_since,
        )
        member.ask("theta", round_.number, round_.nbytes, now)
        room.out.send(member, theta, round_.tensors)
        room.kill("theta", round_.number)

    def remind(self, member: Member, beat: Heartbeat, now: float) -> None:
        """Sends THETA again to a member that evidently never got it."""
        round_ = self.round
        if round_ is None or not round_.expects(member.agent) or beat.round == round_.number:
            return
        pause_s = repeat_after_s(self._room.config.federation)
        asked = member.asked == ("theta", round_.number)
        if not asked or member.overdue(round_.nbytes, pause_s, now):
            self.ask(member, now)

    def receipt(self, member: Member) -> None:
        """Acknowledges a held update, asked for by its agent's heartbeat.

        Most rounds commit before: then ``committed`` in the next message is the receipt, and a message and
        a wake-up per agent and round are saved (about a fifth of an empty round's time).
        """
        number = self._owed.pop(member.agent, None)
        if number is not None:
            self._room.out.send(member, Ack(round=number, outcome="held"))

    def update(self, member: Member, message: Update, delta: F8, now: float) -> None:
        """Answers an update, and closes the round if it was the last one."""
        round_, room = self.round, self._room
        room.ledger.note_update(member.agent, member.incarnation, message)
        if room.config.privacy.noisy and room.ledger.note_release(member.agent, message):
            room.out.put(released(member.agent, room.ledger))
        if round_ is None or round_.number != message.round:
            if not self._is_early(member, message):
                self._of_another_round(member, message)
            else:
                self._early[member.agent] = (message, delta)
                self._owed[member.agent] = message.round
            return
        self._offer(round_, member, message, delta)
        self.settle(now)

    def excuse(self, agent: int, reason: str, now: float) -> None:
        """Gives an agent up for this round."""
        round_ = self.round
        if round_ is not None and round_.excuse(agent, reason):
            fields = {"agent": agent, "round": round_.number, "reason": reason}
            text = f"round {round_.number} goes on without agent {agent}: {reason}"
            self._room.out.note("excused", text, "warning", **fields, **cause_of(reason)._asdict())
            self.settle(now)

    def settle(self, now: float) -> None:
        """Closes the open round if nobody is waited for: its record and result are to be committed."""
        round_, room = self.round, self._room
        if round_ is None or not round_.complete:
            room.watch.changed(now)
            return
        self.round = None
        room.watch.end()
        result = round_.result()
        contributors = {c.agent for c in result.contributors}
        record = RoundRecord(
            round=round_.number,
            eligible=round_.eligible,
            cohort=round_.cohort,
            contributors=result.contributors,
            params_sha256=params_sha256(result.params),
            outcome=result.outcome,
            missing=round_.missing,
            state_resets=result.resets,
            overrides={a: self._worked[a][0] for a in contributors if self._worked[a][0] != Overrides()},
            fingerprints=self._fingerprints(contributors),
            control_sha256=params_sha256(result.control.value) if result.control else "",
            conflicts=tuple(sorted(round_.conflicts)),
            private_noise=room.config.privacy.noisy,
        )
        record = msgspec.structs.replace(record, quarantined=room.ledger.quarantine.judge(record))
        self._quarantine(record)
        self._reset(record)
        room.ledger.close(record, result.params, result.control)
        if result.outcome == "skipped":
            room.ledger.skip(round_.number, round_.held_updates())
            why = f"{round_.held} updates, {round_.need} needed"
            if round_.held >= round_.need:
                why = "finite updates whose sum is not finite"
            room.out.log("warning", f"round {round_.number} is skipped: {why}")
        seconds, book = now - round_.opened, room.ledger.book()
        arrivals = round_.arrivals
        commit = e.Commit(round_.number, result.params, book, record, result.metrics, seconds, arrivals)
        room.commit(commit)

    def _quarantine(self, record: RoundRecord) -> None:
        for agent in record.quarantined:
            why, strikes = record.missing.get(agent, "conflict"), self._room.ledger.quarantine.strikes[agent]
            text = (
                f"agent {agent} is in quarantine until the run ends, after {strikes} refused updates in a row"
            )
            fields = {"agent": agent, "round": record.round, "reason": why}
            self._room.out.note("quarantined", f"{text}; the last: {why}", "warning", **fields)
            self.last_refusal = why

    def _reset(self, record: RoundRecord) -> None:
        """Agents that started the round without their state have one again; what else that means."""
        room = self._room
        for agent in record.state_resets:
            member = room.members.training.get(agent)
            if member is not None:
                member.state_lost = False
        if record.state_resets and room.ledger.control:
            agents, number = ", ".join(map(str, record.state_resets)), record.round
            text = f"agents without their control variates in round {number}: {agents}; all start again"
            room.out.note("control_restarted", text, "warning", round=number, agents=record.state_resets)

    def _fingerprints(self, contributors: set[int]) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for agent in sorted(contributors):
            mark = self._worked[agent][1]
            found[mark] = (*found.get(mark, ()), agent)
        return found

    def _is_early(self, member: Member, message: Update) -> bool:
        """An update that outlived the earlier server process; its round is about to be reopened."""
        resume = self._resume
        return resume is not None and resume.round == message.round and member.agent in resume.cohort

    def _offer(self, round_: OpenRound, member: Member, message: Update, delta: F8) -> None:
        room = self._room
        answer = round_.offer(member.agent, message, delta)
        if answer.outcome == "conflict":
            self._conflict(member, message, answer.reason)
            return
        if answer.outcome == "held":
            self._owed[member.agent] = round_.number
            self._worked[member.agent] = (member.overrides, member.fingerprint)
            if not round_.complete:
                room.kill("update", round_.number)
            return
        self.duplicates += answer.outcome == "duplicate"
        room.out.send(member, Ack(round=message.round, outcome=answer.outcome, reason=answer.reason))
        if answer.outcome in ("late", "refused"):
            self._not_averaged(member, message, answer.outcome, answer.reason)

    def _of_another_round(self, member: Member, message: Update) -> None:
        """A resend, or a straggler: it gets the answer that its round gave."""
        ledger, out = self._room.ledger, self._room.out
        last = ledger.last.get(member.agent)
        if message.round > ledger.closed:
            reason = f"round {message.round} is not open"
            out.send(member, Ack(round=message.round, outcome="refused", reason=reason))
            self._note(member, message, "refused", reason)
        elif last is None or last.round != message.round:
            reason = f"round {message.round} is over"
            out.send(member, Ack(round=message.round, outcome="late", reason=reason))
            self._not_averaged(member, message, "late", reason)
        elif last.verdict in ("late", "refused"):
            out.send(member, Ack(round=message.round, outcome=last.verdict, reason="as before"))
        elif last.crc32 == message.crc32:
            self.duplicates += 1
            out.send(member, Ack(round=message.round, outcome="duplicate"))
        else:
            self._conflict(member, message, f"another update of round {message.round} was held before")

    def _not_averaged(self, member: Member, message: Update, outcome: Verdict, reason: str) -> None:
        self._room.ledger.note_verdict(member.agent, message, outcome)
        self._note(member, message, outcome, reason)

    def _note(self, member: Member, message: Update, outcome: str, reason: str) -> None:
        fields = {"agent": member.agent, "round": message.round, "reason": reason}
        text = f"the update of agent {member.agent} for round {message.round} is {outcome}: {reason}"
        self._room.out.note(outcome, text, "warning", **fields)

    def _conflict(self, member: Member, message: Update, reason: str) -> None:
        out, agent, number = self._room.out, member.agent, message.round
        if self.round is not None and agent in self.round.eligible:  # one that came later has no part in it
            self.round.conflicts.add(agent)
        text = f"agent {agent} sent two different updates of round {number}; the first one stands"
        out.note("conflict", text, "warning", agent=agent, round=number)
        out.send(member, Error(code="conflict", message=reason))
