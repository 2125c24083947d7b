"""Delivery is inferred from what the server says that it has heard, first in first out."""

from agent.outbox import Outbox, Parcel
from protocol import messages as m


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


def test_answers_to_earlier_messages_prove_nothing() -> None:
    """The parcel is message 4: an answer by a server that has heard 3 came before it, however late."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    box.take(anything)
    parcel.number = 4
    for heard, expected in ((0, []), (3, []), (3, []), (4, [parcel])):
        box.answered(heard)
        assert box.take(anything) == expected


def test_a_confirmed_parcel_is_kept_and_not_sent_again() -> None:
    """ACK(held) is a receipt of this server process: a new session gets the parcel again."""
    box, parcel = Outbox(), Parcel(m.Pong())
    box.put("update", parcel)
    box.take(anything)
    box.confirm("update")
    box.answered(9)
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
