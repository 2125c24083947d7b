"""When a run ends early for want of agents."""

from edge_fed.federated.ending import (
    MAX_SKIPPED,
    all_quarantined,
    never_trained,
    too_few_here,
    too_many_skipped,
)


def test_the_third_skipped_round_in_a_row_ends_a_run():
    """Not the second."""
    assert MAX_SKIPPED == 3
    assert [bool(too_many_skipped(k)) for k in range(5)] == [False, False, False, True, True]


def test_a_run_ends_when_every_planned_agent_is_in_quarantine():
    """One that is left is enough to go on; the last refusal is said."""
    assert all_quarantined({0, 1}, (0, 1, 2), "too long") == ""
    assert all_quarantined({0, 1, 2}, (0, 1, 2), "too long").endswith("the last refusal: too long")
    assert "metrics.jsonl" in all_quarantined({0}, (0,), "")


def test_those_who_did_not_come_are_named():
    """In the order of the plan."""
    assert too_few_here(1, 2, (3, 1)) == "1 training agents are here, 2 are needed; missing: 3, 1"
    assert too_few_here(0, 1, ()).endswith("missing: nobody")


def test_a_run_whose_rounds_all_were_skipped_never_trained():
    """One that counted is enough; without rounds nobody meant to train."""
    assert never_trained(0, 0) == never_trained(2, 1) == ""
    assert never_trained(2, 0).startswith("none of the 2 rounds had enough updates")
    assert never_trained(1, 0).startswith("the only round never had enough updates")
