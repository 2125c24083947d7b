"""Timers of one agent: back-off, lease, patience."""

import pytest

from agent.contact import FIRST_RETRY_S, LONGEST_RETRY_S, NAME_AFTER_S, NAME_AGAIN_S, Contact


def contact(jitter: float = 1.0, patience_s: float = 60.0) -> Contact:
    """Made at time 0 with constant jitter."""
    return Contact(0.0, patience_s, lambda _attempt: jitter)


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.5), (1.0, 1.0)])
def test_pauses_double_up_to_a_bound_within_the_jitter(jitter: float, factor: float) -> None:
    """REGISTERs that nobody answers: 0.5, 1, 2, 4, 8, 8 ... s, each shortened by up to a half."""
    made, now, pauses = contact(jitter), 0.0, []
    for _ in range(8):
        made.registering(now)
        pauses.append(made.due() - now)
        now = made.due()
    expected = [factor * min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**n) for n in range(8)]
    assert pauses == pytest.approx(expected)


def test_heartbeats_follow_silence_on_the_wire() -> None:
    """Whatever was sent counts: the next heartbeat is due one interval later."""
    made = contact()
    made.joined_at(10.0, heartbeat_s=1.0, lease_s=5.0)
    assert made.due() == 11.0 and not made.beat_due(10.9)
    made.sent(10.9)
    assert not made.beat_due(11.0) and made.beat_due(11.9)


def test_the_lease_counts_from_the_servers_last_word() -> None:
    """Silence of a whole lease ends the session, not earlier; being asleep oneself extends it."""
    made = contact()
    made.joined_at(10.0, heartbeat_s=1.0, lease_s=5.0)
    made.heard(12.0)
    assert not made.lease_over(16.9) and made.lease_over(17.0)
    made.asleep(100.0)
    assert not made.lease_over(116.9) and made.lease_over(117.0)


def test_a_session_that_was_given_up_too_early_is_given_more_time() -> None:
    """The server was alive behind a slow link: 5, 10, 20 s, at most the patience with one that is gone."""
    made, now, leases = contact(patience_s=18.0), 0.0, []
    for _ in range(4):
        made.joined_at(now, 1.0, 5.0, same=made.doubts)
        leases.append(made.lease_s)
        now += made.lease_s
        made.lost(now, silent=True)
    made.unreachable(now)
    assert leases == [5.0, 10.0, 18.0, 18.0] and not made.doubts


def test_patience_runs_only_outside_a_session() -> None:
    """A short patience does not end a living session between two heartbeats."""
    made = contact(patience_s=0.5)
    assert not made.given_up(0.4) and made.given_up(0.5)
    made.joined_at(1.0, heartbeat_s=1.0, lease_s=5.0)
    assert not made.given_up(5.9)
    made.lost(6.0)
    assert made.given_up(6.0)


def test_a_wait_is_named_in_time_and_a_new_one_starts_afresh() -> None:
    """2 s after its beginning, then every 2 s, or every 10 s beside a living server."""
    made = contact()
    assert not made.naming("server", 0.0, NAME_AFTER_S - 0.1)
    assert made.naming("server", 0.0, NAME_AFTER_S) and not made.naming("server", 0.0, NAME_AFTER_S)
    assert made.naming("server", 0.0, 2 * NAME_AFTER_S)
    assert not made.naming("work", 4.0, 5.9) and made.naming("work", 4.0, 6.0)
    assert not made.naming("work", 4.0, 6.0 + NAME_AGAIN_S - 0.1) and made.naming(
        "work", 4.0, 6.0 + NAME_AGAIN_S
    )
    assert not made.naming("", 20.0, 99.0)


def test_silence_within_a_long_lease_is_named_first_in_time_and_then_less_often() -> None:
    """2 s after its beginning, then every third of a lease of 12 s: slow links are silent in each round."""
    made = contact()
    made.joined_at(0.0, heartbeat_s=1.0, lease_s=12.0)
    assert [s for s in range(1, 12) if made.naming("answer", 0.0, float(s))] == [2, 6, 10]
