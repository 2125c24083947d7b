"""What failed handshakes mean, event by event."""

import pytest

from protocol.transport.failures import (
    AUTH,
    CONNECTED,
    CRYPTOGRAPHIC,
    DISCONNECTED,
    KINDS,
    MANY,
    MISMATCH,
    NO_DETAIL,
    PROTOCOL,
    RETRIED,
    SEVERAL,
    SOON_S,
    SUCCEEDED,
    Judge,
    kind_by_greeting,
    kind_of,
)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    ("event", "value", "kinds"),
    [
        (AUTH, 400, ("unlisted", "unlisted")),
        (PROTOCOL, MISMATCH, ("plain_peer", "curve_peer")),
        (PROTOCOL, CRYPTOGRAPHIC, ("server_key", "server_key")),
        (PROTOCOL, 0x10000001, ("garbage", "garbage")),
        (NO_DETAIL, 104, ("broken_off", "broken_off")),
    ],
)
def test_kinds(event, value, kinds, keyed):
    """What libzmq knows, seen from a side with keys and from one without [wire 43]."""
    kind = kind_of(event, value, keyed=keyed)
    assert kind == kinds[0 if keyed else 1]
    assert kind in KINDS


@pytest.mark.parametrize(
    ("mechanism", "keyed", "refusal"),
    [
        ("CURVE", True, "server_key"),
        ("CURVE", False, "curve_peer"),
        ("NULL", True, "plain_peer"),
        ("NULL", False, None),  # a server like us that hangs up has another reason than keys
        ("PLAIN", True, None),
        ("", True, None),
        ("", False, None),
    ],
)
def test_greetings(mechanism, keyed, refusal):
    """A server that hangs up is judged by what its greeting says; without a greeting it is not judged."""
    assert kind_by_greeting(mechanism, keyed=keyed) == refusal


def tries(judge, after_s, times, now=0.0):
    """Connections that break off so long after they stood."""
    found = []
    for _ in range(times):
        judge.event(CONNECTED, 1, now)
        found.append(judge.event(NO_DETAIL, 104, now + after_s))
        now += after_s
    return found


def test_several_quick_breaks_raise_the_question():
    """One may be a server that dies; the question comes again only after as many more."""
    judge = Judge(keyed=True)
    assert tries(judge, 0.01, 2 * SEVERAL) == ([None] * (SEVERAL - 1) + ["broken_off"]) * 2


def test_slow_breaks_are_a_stuck_server():
    """A handshake that ends by a timeout says nothing about keys."""
    assert tries(Judge(keyed=True), SOON_S, 50) == [None] * 50


def test_a_success_clears_the_count_and_asks_for_more():
    """Breaks that are not in a row are accidents; a key that was right once is doubted late."""
    judge = Judge(keyed=True)
    assert tries(judge, 0.01, SEVERAL - 1) == [None] * (SEVERAL - 1)
    for _ in range(3):
        judge.event(SUCCEEDED, 0, 1.0)
        judge.event(DISCONNECTED, 9, 1.0)
        assert tries(judge, 0.01, MANY - 1) == [None] * (MANY - 1)
    assert tries(judge, 0.01, 1) == ["broken_off"]


def test_causes_are_told_at_once():
    """The first one is enough where libzmq knows it."""
    assert Judge(keyed=True).event(AUTH, 400, 0.0) == "unlisted"
    assert Judge(keyed=False).event(PROTOCOL, MISMATCH, 0.0) == "curve_peer"


def test_a_connection_that_libzmq_gives_up_is_told_from_one_that_it_dials_again():
    """Both end; only the one is not tried again. What was changed on the way says nothing about keys."""
    judge = Judge(keyed=True)
    for event in (CONNECTED, SUCCEEDED):
        judge.event(event, 0, 0.0)
    assert judge.event(PROTOCOL, CRYPTOGRAPHIC, 1.0) is None
    assert judge.event(DISCONNECTED, 9, 1.0) == "ended"
    assert judge.given_up
    judge.event(RETRIED, 20, 1.0)
    assert not judge.given_up


def test_a_peer_that_speaks_something_else_is_tried_again():
    """It may be another program that has the address for now."""
    judge = Judge(keyed=False)
    assert judge.event(PROTOCOL, 0x10000001, 1.0) == "ended"
    assert judge.event(DISCONNECTED, 9, 1.0) is None
    assert judge.given_up
