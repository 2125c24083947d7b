"""Delivery is inferred from answered heartbeats, first in first out."""

from agent.outbox import Outbox, Parcel
from protocol import messages as m

LEASE_S = 5.0


def anything(_kind: type[m.Message]) -> bool:
    """The order of messages allows all."""
    return True


def test_a_parcel_is_taken_once() -> None:
    """What travels is not sent again until it is known to be lost."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    assert box.take(anything) == [parcel] and box.take(anything) == []


def test_what_the_order_forbids_waits() -> None:
    """A parcel whose message is not legal now stays, and goes out when it is."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    assert box.take(lambda kind: kind is not m.Pong) == [] and box.take(anything) == [parcel]


def test_answers_to_earlier_heartbeats_prove_nothing() -> None:
    """Two heartbeats were open when the parcel left: only the third answer proves that it was overtaken."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    box.beat(0.0)
    box.beat(0.0)
    box.take(anything)
    box.beat(0.0)
    for expected in ([], [], [parcel]):
        box.beat_answered(0.0, LEASE_S)
        assert box.take(anything) == expected


def test_a_confirmed_parcel_is_kept_and_not_sent_again() -> None:
    """ACK(held) is a receipt of this server process: a new session gets the parcel again."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    box.take(anything)
    box.confirm("update")
    for _ in range(3):
        box.beat_answered(0.0, LEASE_S)
    assert box.take(anything) == [] and box.get("update") is parcel
    box.new_session()
    assert box.take(anything) == [parcel]


def test_what_the_server_asks_for_again_goes_out_again() -> None:
    """An equal question means that the answer is missing, whatever was confirmed."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("report", parcel)
    box.take(anything)
    box.confirm("report")
    assert parcel.delivered and box.take(anything) == []
    box.again("report")
    assert box.take(anything) == [parcel]


def test_lost_heartbeats_do_not_put_off_what_is_lost_later() -> None:
    """Three heartbeats were never answered: after a lease the answer to a later one proves the loss."""
    box, parcel = Outbox(), Parcel(m.Pong())
    for second in range(3):
        box.beat(float(second))
    box.put("update", parcel)
    box.take(anything)
    box.beat(9.0)
    box.beat_answered(9.1, LEASE_S)
    assert box.take(anything) == [parcel]


def test_a_heartbeat_that_is_open_for_less_than_a_lease_still_counts() -> None:
    """Its answer may be under way: it proves nothing about what left after it."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.beat(0.0)
    box.put("update", parcel)
    box.take(anything)
    box.beat(1.0)
    box.beat_answered(4.0, LEASE_S)
    assert box.take(anything) == []
    box.beat_answered(4.1, LEASE_S)
    assert box.take(anything) == [parcel]
