"""A sequence is a function of its seed, and one that a user could have written."""

from scenarios.actions import ACTIONS
from scenarios.campaign.draw import draw
from scenarios.script import check, runtime_faults

SEEDS = range(60)


def test_a_seed_gives_the_same_sequence_again() -> None:
    """Nothing else decides; other seeds give others."""
    assert [draw(seed) for seed in SEEDS] == [draw(seed) for seed in SEEDS]
    assert len({str(draw(seed).scenario.timeline) for seed in SEEDS}) == len(SEEDS)


def test_what_is_drawn_can_be_run() -> None:
    """`check` finds nothing, and the processes runtime can do all of it."""
    for seed in SEEDS:
        scenario = draw(seed).scenario
        assert check(scenario) == []
        assert runtime_faults(scenario, "processes") == []
        assert scenario.timeline


def test_everything_is_drawn() -> None:
    """Every action, deaths at points and by both signals, cuts, transports, and settings with agent state."""
    drawn = [draw(seed) for seed in SEEDS]
    actions = [action for sequence in drawn for action in sequence.scenario.timeline]
    assert {action.do for action in actions} == set(ACTIONS)
    assert {"assigned", "trained", "sent"} < {action.args.get("point") for action in actions}
    assert {"theta", "update", "array"} < {action.args.get("point") for action in actions}
    assert {"drop", "freeze", "half_open"} < {action.args.get("kind") for action in actions}
    assert "TERM" in {action.args.get("signal") for action in actions}
    assert {"TERM", "KILL"} == {sequence.cut.how for sequence in drawn if sequence.cut}
    assert {"ipc", "tcp"} == {sequence.transport for sequence in drawn}
    settings = [sequence.scenario.algorithm for sequence in drawn]
    assert {"control_variate", "none"} == {algorithm.correction for algorithm in settings}
    assert {"value", "loo", "none"} == {algorithm.baseline for algorithm in settings}
    assert {"process", "power"} == {sequence.scenario.federation.durability for sequence in drawn}
