"""The ZAP handler's answers, frame by frame (RFC 27)."""

import pytest
from zmq.utils import z85

from protocol.transport import make_pair
from protocol.transport.zap import answer

KEY = make_pair()[0]
REQUEST = [b"1.0", b"7", b"edge_fed", b"192.0.2.1", b"", b"CURVE", z85.decode(KEY)]


def test_an_admitted_key_becomes_the_user_id():
    """Status 200; the decision sees the key as text and the peer's address."""
    asked = []
    reply = answer(REQUEST, lambda key, address: asked.append((key, address)) or True)
    assert reply == [b"1.0", b"7", b"200", b"OK", KEY.encode(), b""]
    assert asked == [(KEY, "192.0.2.1")]


def test_another_key_is_refused():
    """Status 400 and no user id."""
    assert answer(REQUEST, lambda _key, _address: False)[2::2] == [b"400", b""]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ([*REQUEST[:5], b"NULL"], b"400"),
        ([*REQUEST[:5], b"PLAIN", b"user", b"password"], b"400"),
        ([*REQUEST[:6], b"short"], b"400"),
        (REQUEST[:6], b"400"),
        ([*REQUEST, b"more"], b"400"),
        ([b"2.0", *REQUEST[1:]], b"500"),
        (REQUEST[:3], b"500"),
        ([], b"500"),
    ],
)
def test_nothing_else_gets_in(request_, status):
    """Other mechanisms, wrong sizes, other versions: six frames, no user id, and nobody is asked."""

    def never(_key, _address):
        raise AssertionError("a request without a key was asked about")

    reply = answer(request_, never)
    assert len(reply) == 6
    assert (reply[0], reply[2], reply[4]) == (b"1.0", status, b"")
