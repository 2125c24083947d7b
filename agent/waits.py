"""What an agent says while it waits: whom for, how long already, and what ends the wait."""

from agent.contact import Contact, Wait
from agent.events import Level
from agent.plan import DEFAULT_SERVER, Plan
from protocol.transport import is_loopback


def whom(contact: Contact) -> str:
    """Who is waited for outside a session."""
    if contact.reached:
        return "an answer of the server"
    return "the server to come back" if contact.ever else "a server"


def line(
    contact: Contact, what: Wait, since: float, now: float, address: str, says: str
) -> tuple[Level, str]:
    """The line that names a wait.

    Args:
        contact: What is known of the server's life.
        what: What is waited for.
        since: When the wait began, in monotonic seconds.
        now: Monotonic seconds.
        address: The server's.
        says: The server's own word on what it waits for; may be empty.
    """
    if what == "day":
        return (
            "info",
            f"away until the day's budget is new; registering again in {contact.away_until - now:.0f} s",
        )
    waited = f"{now - since:.0f} s"
    if what == "server":
        left = max(0.0, contact.give_up_after_s - contact.silent_s(now))
        return "warning", f"waiting for {whom(contact)} at {address}: {waited}, giving up in {left:.0f} s"
    if what == "answer":
        lease = f"registering again after {contact.lease_s:.0f} s"
        level: Level = (
            "info" if contact.silent_s(now) < contact.lease_s / 2 else "warning"
        )  # a slow link may be
        return level, f"waiting for a sign of life of the server: {waited}, {lease}"
    return "info", f"waiting for the server: {waited}; {says or 'nothing was asked of this agent yet'}"


def start_hint(plan: Plan, run: str, *, onboards: bool) -> str:
    """What to type on the server's side when nobody is there.

    Args:
        plan: Names the address that this agent looks at.
        run: The run that it took part in, for people; empty: none yet. A new server would lead another one
            and refuse it.
        onboards: It needs no training, but parameters.
    """
    bind = _bind(plan)
    if run:
        return f"go on with {run}: python -m server --resume runs/<its folder>{bind}"
    if onboards:
        return f"start the server with --serve or --resume: python -m server --resume runs/<folder>{bind}"
    return f"start the server with: python -m server{bind}"


def _bind(plan: Plan) -> str:
    """The flags with which a server is found at the agent's address; empty if it needs none."""
    address, keys = plan.address, " --keys DIR" if plan.key_file else ""
    if address == DEFAULT_SERVER:
        return keys
    if is_loopback(address):
        return f" --bind {address}{keys}"
    port = address.rpartition(":")[2]
    return f" --bind tcp://0.0.0.0:{port}{keys or ' --insecure'} (on that machine)"
