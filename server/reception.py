"""REGISTER and READY: who is let in, and whose place it takes. Pure."""

from collections.abc import Callable

import msgspec

from edge_fed.config import Overrides
from edge_fed.federated.attacks import described
from edge_fed.program.allow_list import AllowList
from protocol.limits import MINOR, Limits
from protocol.messages import (
    Error,
    Header,
    Ping,
    Ready,
    Register,
    Reject,
    Role,
    Shutdown,
    Superseded,
    Welcome,
)
from protocol.session import Session
from server.admission import Admission
from server.ledger import Ledger
from server.members import CHALLENGE_S, Challenge, Member, Members, repeat_after_s
from server.outbox import Outbox

FULL = "this server has as many onboarders as it takes; this one waits for its turn and asks again"


class Reception:
    """Lets agents in.

    Args:
        admission: What they must agree on.
        members: Who is here.
        ledger: For ``last_counted``.
        outbox: Where answers go.
        new_id: Makes a fresh 16-byte session id.

    Attributes:
        training_over: Whether round K is committed: newcomers onboard.
        allowed: Which key may act as which agent; None: this server has no keys.
    """

    def __init__(
        self,
        admission: Admission,
        members: Members,
        ledger: Ledger,
        outbox: Outbox,
        new_id: Callable[[], bytes],
    ) -> None:
        federation = admission.config.federation
        self.training_over = False
        self.allowed: AllowList | None = None
        self._admission = admission
        self._members = members
        self._ledger = ledger
        self._out = outbox
        self._new_id = new_id
        limits = Limits(heartbeat_s=federation.heartbeat_s, lease_s=federation.lease_s)
        self._repeat_s = repeat_after_s(federation)
        self._limits: dict[str, float] = msgspec.to_builtins(limits)

    def register(self, peer: bytes, message: Register, now: float, minor: int = MINOR, key: str = "") -> None:
        """Answers a REGISTER: WELCOME, REJECT, or first a question to the goal's present holder."""
        last_word = self._members.last_word(message.incarnation)
        if last_word is not None:
            self._out.outside(peer, last_word)
            return
        known = self._members.by_incarnation(message.incarnation)
        forbidden = self._forbidden(message, key, known)
        if forbidden is not None:
            self._refuse(peer, message, forbidden)
            return
        if known is not None and peer in known.left:  # READY may have overtaken it over the next connection
            return
        if known is not None and not known.welcome_due(peer, self._repeat_s, now):
            return  # the answer to an earlier copy is on its way
        if known is not None:  # its answer was lost, or it lost its connection: the same session
            known.session.receive(Header(), message, now)  # as for a new one: it stands outside sessions
            self._members.bind(known, peer)
            if known.ready:  # until its READY a round may open without it: a boundary waits for it
                self._out.tell("registers_again", agent=known.agent, role=known.role)
            self._members.builds_again(known)
            self._welcome(known, now)
            return
        refusal = self._admission.refuse(message, minor)
        if refusal is not None:
            self._refuse(peer, message, refusal)
            return
        trains = self._admission.role(message, self.training_over) == "train"
        if trains and message.agent in self._ledger.quarantine.agents:
            self._refuse(peer, message, quarantined(message.agent))
            return
        if self._members.full and self._admission.role(message, self.training_over) == "onboard":
            self._out.outside(peer, Error(code="internal", message=FULL))
            return
        holder = self._holder(message)
        if holder is None:
            self._admit(peer, message, now, key)
        elif message.take_over or holder.lost or holder.unreachable:
            self._displace(holder)
            self._admit(peer, message, now, key)
        else:
            self._challenge(holder, peer, message, now, key)

    def crowded_out(self, peer: bytes, message: Register) -> Member | None:
        """Whose session ends because of this REGISTER; None: nobody's.

        A connection carries one session, and there is room for so many onboarders: so a flood of REGISTER
        costs bounded memory, over one connection or over many.
        """
        present = self._members.by_peer(peer)
        if present is not None and present.incarnation != message.incarnation:
            return present
        new = self._members.by_incarnation(message.incarnation) is None
        if new and self._members.full and self._admission.role(message, self.training_over) == "onboard":
            return self._members.first_building()
        return None

    def ready(self, member: Member, message: Ready) -> bool:
        """Takes a READY; False: refused, the member is gone."""
        refusal = self._admission.unfit(message)
        if refusal is not None:
            self._note_refusal(member.agent, refusal)
            self._out.send(member, refusal)
            self._members.remove(member)
            return False
        member.ready, member.welcomes = True, 0
        member.fingerprint = message.fingerprint
        member.state_lost = message.stateful and message.state_tag < member.told_counted
        if member.state_lost:
            text = f"agent {member.agent} comes without its agent state of round {member.told_counted}"
            self._out.note("state_lost", text, "warning", agent=member.agent, round=member.told_counted)
        if member.role == "train" and self._ledger.note_fingerprint(message.fingerprint):
            text = f"agent {member.agent} computes with other bits ({message.fingerprint}): not bit-equal"
            self._out.note(
                "mixed_fleet", text, "warning", agent=member.agent, fingerprint=message.fingerprint
            )
        what = "joined" if member.role == "train" else "is here to onboard"
        self._out.note("ready", f"agent {member.agent} {what}", agent=member.agent, role=member.role)
        self._out.tell("ready", agent=member.agent, role=member.role)
        return True

    def alive(self, member: Member) -> None:
        """A challenged holder answers: the newcomer has to go."""
        challenge = self._members.challenges.pop(member.agent, None)
        if challenge is not None and self._members.training.get(member.agent) is member:
            self._refuse(challenge.peer, challenge.message, _goal_in_use(member.agent))

    def silent(self, agent: int, now: float) -> None:
        """A challenged holder does not answer, or cannot be reached: the newcomer takes over."""
        challenge = self._members.challenges.pop(agent, None)
        if challenge is None:
            return
        forbidden = self._forbidden(challenge.message, challenge.key, None)
        if forbidden is not None:  # its key was revoked while it waited
            self._refuse(challenge.peer, challenge.message, forbidden)
            return
        holder = self._members.training.get(agent)
        if holder is not None:
            self._displace(holder)
        self._admit(challenge.peer, challenge.message, now, challenge.key)

    def expire(self, now: float) -> None:
        """Ends the challenges whose time is up."""
        for agent in [a for a, c in self._members.challenges.items() if now >= c.until]:
            self.silent(agent, now)

    def revoked(self, member: Member) -> Reject | None:
        """The last word to a member whose key may not act as it any more; None: it may."""
        if self.allowed is None or self.allowed.may(member.key, member.agent, member.role):
            return None
        return _key_refused(member.agent, member.role, member.key, self.allowed)

    def _forbidden(self, message: Register, key: str, known: Member | None) -> Reject | None:
        """Why this key may not send this REGISTER; None: it may, or this server has no keys."""
        if self.allowed is None:
            return None
        role = self._admission.role(message, self.training_over)
        if not self.allowed.may(key, message.agent, role):
            return _key_refused(message.agent, role, key, self.allowed)
        if known is not None and known.key != key:
            text = f"this process of agent {message.agent} has registered with another key; start a new one"
            return Reject(reason="key", message=text, received=key)
        return None

    def _holder(self, message: Register) -> Member | None:
        if self._admission.role(message, self.training_over) == "onboard":
            return None
        return self._members.training.get(message.agent)

    def _challenge(self, holder: Member, peer: bytes, message: Register, now: float, key: str) -> None:
        running = self._members.challenges.get(message.agent)
        if running is None:
            self._members.challenges[message.agent] = Challenge(peer, message, now + CHALLENGE_S, key)
            text = f"another process asks for goal {message.agent}; is the present agent alive?"
            self._out.note("challenged", text, agent=message.agent)
            self._out.send(holder, Ping())
        elif running.message.incarnation == message.incarnation:  # it repeats its REGISTER
            running.peer, running.message, running.key = peer, message, key
        else:
            self._refuse(peer, message, _goal_in_use(message.agent))

    def _displace(self, holder: Member) -> None:
        word = Superseded(message=f"another process took goal {holder.agent} over")
        self._out.note("superseded", f"agent {holder.agent}: a newer process takes over", agent=holder.agent)
        self._out.send(holder, word)
        self._members.remove(holder, word)

    def _admit(self, peer: bytes, message: Register, now: float, key: str) -> None:
        role = self._admission.role(message, self.training_over)
        overrides = self._admission.overrides(message, role)
        if isinstance(overrides, Reject):
            self._refuse(peer, message, overrides)
            return
        session = Session("server", self._new_id(), self._admission.run_id, now)
        session.receive(Header(), message, now)
        session.role = role
        member = Member(message, session, peer, overrides, key)
        self._members.add(member, now)
        if role == "train":
            self._members.seat(member)
        fields = {"agent": member.agent, "role": role, "versions": _short(message.versions)}
        if overrides != Overrides():
            fields["overrides"] = msgspec.to_builtins(overrides)
        self._out.note("registered", f"agent {member.agent} registered", "debug", **fields)
        if overrides.attack is not None:
            text = (
                f"agent {member.agent} attacks in this run, as [[agents]] says: {described(overrides.attack)}"
            )
            self._out.note("attacker", text, "warning", agent=member.agent)
        self._note_device(member.agent, overrides)
        self._welcome(member, now)

    def _note_device(self, agent: int, overrides: Overrides) -> None:
        planned = self._admission.planned.get(agent, Overrides()).device
        if (device := overrides.device) is not None:
            shield = ", behind a shield" if device.shielded else ""
            never = ", reset only once" if device.reset == "never" else ""
            text = f"agent {agent} works on a real plant{shield}{never}: nobody can compute this run again"
            self._out.note("device", text, agent=agent)
        elif planned is not None:
            text = f"agent {agent} is planned as a device and came without --device: it simulates"
            self._out.note("simulated", text, "warning", agent=agent)

    def _welcome(self, member: Member, now: float) -> None:
        member.welcomed_at, member.welcomes = now, member.welcomes + 1
        member.told_counted = self._ledger.last_counted.get(member.agent, 0)
        welcome = Welcome(
            role=member.role,
            config=self._admission.config_values,
            limits=self._limits,
            features=self._admission.features,
            last_counted=member.told_counted,
            initial_sha256=self._admission.initial_sha256,
        )
        self._out.send(member, welcome)

    def _refuse(self, peer: bytes, message: Register, refusal: Reject) -> None:
        self._note_refusal(message.agent, refusal)
        self._out.outside(peer, refusal)

    def _note_refusal(self, agent: int, refusal: Reject) -> None:
        text = f"agent {agent} refused: {refusal.message}"
        self._out.note("rejected", text, "warning", agent=agent, reason=refusal.reason)


def quarantined(agent: int) -> Reject:
    """The answer to an agent that is not asked any more, and to every later process of it."""
    return Reject(
        reason="quarantined",
        message=f"too many updates of agent {agent} in a row were refused: it takes no part in this run any "
        "more, neither after a restart of the agent nor of the server; the server's log says what was wrong: "
        "correct that, and start a new run",
    )


def dismissed(reason: str) -> Shutdown:
    """The last word to an agent that has nothing more to do here."""
    return Shutdown(outcome="finished", reason=reason)


def _key_refused(agent: int, role: Role, key: str, allowed: AllowList) -> Reject:
    rights = allowed.rights(key)
    if rights is None:  # it was there when the connection was made
        return Reject(
            reason="key",
            message=f"the key {key} was revoked: it is no longer on the server's allow-list; get a new one",
        )
    does = "train as" if role == "train" else "onboard"
    return Reject(
        reason="key",
        message=f"the key {key} may not {does} agent {agent}; start the agent with the key file of agent "
        f"{agent}, or let the server's allow-list give this key that id",
        expected=str(rights),
        received=f"agent {agent}",
    )


def _short(versions: dict[str, str]) -> dict[str, str]:
    """What of an agent's versions goes into the journal, which nobody may fill."""
    return {name[:50]: version[:50] for name, version in list(versions.items())[:20]}


def _goal_in_use(agent: int) -> Reject:
    return Reject(
        reason="goal_in_use",
        message=f"a living agent has goal {agent}; choose another --goal, stop it, or use --take-over",
    )
