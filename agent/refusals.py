"""What a person is told when the server refuses this agent. Pure."""

from agent.plan import Plan
from edge_fed.params import first_difference
from protocol.messages import Reject
from protocol.transport import Refusal


def rejected(message: Reject, layout: str) -> str:
    """Why the server rejects this agent, with both values; of two layouts of parameters where they part.

    Args:
        message: The server's; ``expected`` is its layout, or a hash or number where that is too long.
        layout: This agent's; empty: it has built none.
    """
    sides = (("expected", message.expected), ("received", message.received))
    detail = ", ".join(f"{name} {value}" for name, value in sides if value)
    if layout and message.reason in ("dimension", "schema") and " " in message.expected:
        detail = first_difference(message.expected, layout)
    return f"refused by the server ({message.reason}): {message.message}" + (f" [{detail}]" if detail else "")


def explained(kind: Refusal, plan: Plan) -> tuple[str, str]:
    """Why the connection is refused when keys do not belong together, and what to do next.

    Args:
        kind: What the transport found out.
        plan: Names the server's address, the agent, its key and key file.
    """
    refused = f"authentication refused: the server at {plan.address}"
    if kind == "unlisted":
        return (
            f"{refused} does not list this agent's key {plan.public_key}",
            "ask who keeps the server whether it was revoked; one that never was listed needs a line in "
            "allowed.txt: "
            f"{plan.public_key} {plan.agent}",
        )
    if kind == "server_key":
        return (
            f"{refused} does not hold the key that {plan.key_file} names for it (it broke off the handshake)",
            "if it is the right server, copy its public key (a comment in server.key) into the line server =",
        )
    if kind == "plain_peer":
        return (
            f"authentication refused: this agent has keys, and the server at {plan.address} works without",
            "start the server with --keys DIR, or leave --keys out on a network that you trust",
        )
    return (
        f"{refused} wants keys, and this agent has none",
        f"add --keys FILE, made on the server's side by: python -m server keygen DIR --agents {plan.agent}",
    )
