"""What `check` says about devices before anything moves."""

import pytest

from edge_fed.validation.devices import link_lines
from scenarios.script import runtime_faults
from tests.edge_fed.gym.toy_envs import MODULE
from tests.edge_fed.validation.test_devices import faults
from tests.scenarios.tiny import tiny

SLOW = "federation.round_deadline_s=112"  # 2 local steps x (4 + 4) trajectories x 7 actions at 1 s


def test_a_pace_that_outlasts_the_round_is_named_with_its_time() -> None:
    """112 s are just enough; the advice is enough, too; more trajectories take longer."""
    paced = "device = { pace_s = 1 }\n"
    assert faults(paced, SLOW) == ""
    text = faults(paced, "federation.round_deadline_s=111")
    assert "agents.0.device.pace_s: is 1: a round of 16 trajectories of 7 actions takes 112 s" in text
    assert "federation.round_deadline_s = 111" in text and "give the round at least 120 s" in text
    assert "agents.0.link" not in text, "it has none"
    assert "takes 112000 s" in faults("device = { pace_s = 1000 }\n", SLOW)
    assert "takes 140 s" in faults("inner_batch = 6\n" + paced, SLOW)
    assert "takes 168 s" in faults(paced, SLOW, "algorithm.variant=exact", "algorithm.hessian_batch=4")


def test_a_link_and_a_pace_take_their_time_together() -> None:
    """A second each way on top."""
    slow_link = "device = { pace_s = 1 }\nlink = { latency_s = 1 }\n"
    assert "a round needs at least 114 s" in faults(slow_link, SLOW)


def test_a_day_that_is_too_small_for_one_round_is_named() -> None:
    """Such a device would come each day, and leave again."""
    text = faults("device = { daily_trajectories = 15 }\n")
    assert "agents.0.device.daily_trajectories: is 15, but a round of this device needs 16" in text
    assert faults("device = { daily_trajectories = 16 }\n") == ""


def test_a_device_keeps_too_little_for_a_bootstrap() -> None:
    """Whether the run asks for it or its own arguments do; beside agents that bootstrap it may be."""
    args = f'id = "{MODULE}:Corridor", goals = 4, held_out = 0'
    sets = ("environment.family=gymnasium", f"environment.args={{ {args} }}")
    valued = ("environment.family=gymnasium", f'environment.args={{ {args}, bootstrap = "value" }}')
    device = "device = { pace_s = 0 }\n"
    why = "agents.0.device: is set, but bootstrap 'value' needs how each episode ended"
    assert why in faults(device, *valued)
    assert why in faults(device + 'args = { bootstrap = "value" }\n', *sets)
    assert faults(device, *sets) == faults(device + 'args = { bootstrap = "none" }\n', *valued) == ""


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ("pace_s = 1", "takes 112 s, of federation.round_deadline_s = 112"),
        (
            "pace_s = 1, daily_trajectories = 50",
            "takes 112 s, of federation.round_deadline_s = 112; 3 rounds a day",
        ),
        ("pace_s = 0", "takes as long as its steps do, of federation.round_deadline_s = 112"),
    ],
)
def test_people_are_told_how_long_a_round_takes_on_a_device(facts: str, line: str) -> None:
    """Beside the deadline; and how many rounds a day has for it. Simulations may rehearse the plan."""
    scenario = tiny(f"device = {{ {facts} }}\n", SLOW)
    assert link_lines(scenario, 36) == [f"agents.0 on a device: a round of 16 trajectories {line}"]
    assert runtime_faults(scenario, "plain") == []
