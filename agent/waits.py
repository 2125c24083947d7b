"""What an agent says while it waits: whom for, how long already, and what ends the wait."""

from agent.contact import Contact, Wait
from agent.events import Level


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
