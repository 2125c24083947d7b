"""What a failed handshake means, as far as libzmq tells. Pure: numbers in, kinds out.

libzmq reports a cause where it knows one. It does not if the peer simply hangs up, and that is all that an
agent with the wrong key of its server sees; but so are a proxy without a server behind it and a server that
dies. So this takes several in a row, each soon after the connection stood, and what the greeting of the
server says of itself (`protocol.transport.greeting`).
"""

from typing import Literal

import zmq

Kind = Literal["unlisted", "server_key", "plain_peer", "curve_peer", "garbage", "broken_off"]
KINDS: dict[Kind, str] = {
    "unlisted": "the peer's key is not on the allow-list",
    "server_key": "the peer has another public key of this server, or its messages were changed on the way",
    "plain_peer": "the peer has no keys",
    "curve_peer": "the peer has keys and this side has none",
    "garbage": "the peer does not keep to the protocol of ZeroMQ",
    "broken_off": "the peer hung up or fell silent during the handshake",
}
Refusal = Literal["unlisted", "server_key", "plain_peer", "curve_peer"]
"""The kinds that trying again does not mend."""
News = Refusal | Literal["broken_off", "ended"]
"""What an agent has to do something about: refusals, a question to the greeting, an end of the connection."""

CONNECTED = int(zmq.EVENT_CONNECTED)
RETRIED = int(zmq.EVENT_CONNECT_RETRIED)
DISCONNECTED = int(zmq.EVENT_DISCONNECTED)
SUCCEEDED = int(zmq.EVENT_HANDSHAKE_SUCCEEDED)
NO_DETAIL = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
PROTOCOL = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
AUTH = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
CRYPTOGRAPHIC = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)

SOON_S = 3.0  # a server that cannot read our first box hangs up at once; one that is stuck after 5 s
SEVERAL = 3
MANY = 30  # once a handshake has succeeded, the key was right: both sides may be starved of time instead


def kind_of(event: int, value: int, *, keyed: bool) -> Kind:
    """The kind of one failed handshake.

    Args:
        event: One of the three events of a failure.
        value: Its value.
        keyed: Whether this side has keys.
    """
    if event == AUTH:
        return "unlisted"
    if event == PROTOCOL and value == MISMATCH:
        return "plain_peer" if keyed else "curve_peer"
    if event == PROTOCOL and value == CRYPTOGRAPHIC:
        return "server_key"
    return "garbage" if event == PROTOCOL else "broken_off"


def kind_by_greeting(mechanism: str, *, keyed: bool) -> Refusal | None:
    """Why a server hangs up several times, given the mechanism that its greeting names; None: unknown."""
    if mechanism == "CURVE":
        return "server_key" if keyed else "curve_peer"
    return "plain_peer" if mechanism == "NULL" and keyed else None


class Judge:
    """Follows an agent's connections until one tells something.

    Args:
        keyed: Whether the agent has keys.

    Attributes:
        given_up: The connection ended and libzmq does not dial again: the peer broke the protocol, or a third
            party changed what it sent.
    """

    def __init__(self, *, keyed: bool) -> None:
        self.given_up = False
        self._keyed = keyed
        self._stands = False
        self._needed = SEVERAL
        self._connected_at = 0.0
        self._broken_off = 0

    def event(self, event: int, value: int, now: float) -> News | None:
        """What is known after an event; None: nothing new."""
        if event == CONNECTED:
            self._connected_at = now
        elif event == RETRIED:
            self.given_up = False
        elif event == SUCCEEDED:
            self._broken_off = 0
            self._stands = True
            self._needed = MANY
        elif event == DISCONNECTED:
            stood, self._stands = self._stands, False
            self.given_up = True
            return "ended" if stood else None
        elif not self._stands:  # once it stands, a failure is one of messages, and its end follows
            return self._failed(event, value, now)
        return None

    def _failed(self, event: int, value: int, now: float) -> News | None:
        kind = kind_of(event, value, keyed=self._keyed)
        if kind == "garbage":
            return "ended"
        if kind != "broken_off":
            return kind
        soon = now - self._connected_at < SOON_S
        self._broken_off = self._broken_off + 1 if soon else 0
        if self._broken_off < self._needed:
            return None
        self._broken_off = 0
        return "broken_off"
