"""What a signal means."""

from edge_fed.program.stopping import ECHO_S, Stopping


def test_one_order_that_comes_twice_is_one_order() -> None:
    """Timeout sends its signal twice; a person who types again later wants the end at once."""
    stopping = Stopping()
    orders = [stopping.order(now) for now in (7.0, 7.0, 7.0 + 0.9 * ECHO_S, 7.0 + ECHO_S, 9.0)]
    assert orders == ["first", "echo", "echo", "second", "second"]
