"""What `check` says about devices and links before anything starts."""

import pytest

from edge_fed.errors import ConfigError
from edge_fed.validation.devices import link_lines
from tests.scenarios.tiny import tiny

FEDERATION = ("federation.heartbeat_s=1.0", "federation.lease_s=5.0", "federation.round_deadline_s=60.0")


def faults(tail="", *sets):
    """The text of everything that is wrong with the tiny scenario; empty if nothing is."""
    try:
        tiny(tail, *sets)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("preset", ["ethernet", "wifi", "lte", "lora"])
def test_presets_carry_a_small_policy(preset):
    """288 bytes of parameters pass any of them with the usual heartbeat, lease and deadline."""
    assert faults(f'profile = "{preset}"\n', *FEDERATION) == ""


def test_an_unknown_preset_is_refused_with_the_nearest():
    """FLGo takes an unknown mode for the ideal one, and the user sees no effect; here it is a fault."""
    text = faults('profile = "lora-wan"\n')
    assert "agents.0.profile: unknown profile of a link 'lora-wan' (did you mean 'lora'?)" in text


@pytest.mark.parametrize(
    ("tail", "path"),
    [
        ("availability = 0\n", "agents.0.availability"),
        ("connectivity = 1.5\n", "agents.0.connectivity"),
        ("completeness = 0\n", "agents.0.completeness"),
        ("completeness = nan\n", "agents.0.completeness"),
        ("responsiveness = { spread = 3 }\n", "agents.0.responsiveness.spread"),
        ("responsiveness = { mean_s = 3 }\n", "agents.0.responsiveness.mean_s"),
        ("responsiveness = 3\n", "agents.0.responsiveness"),
    ],
)
def test_wrong_words_are_refused_by_path(tail, path):
    """Out of range, not a number, unknown keys."""
    assert path in faults(tail)


def test_a_frame_that_outlasts_the_lease_is_named_with_its_time():
    """2.9 kB over LoRa: 2880 + 200 bytes at 5470 bit/s are 4.5 s, and a heartbeat waits behind them."""
    sets = ("environment.family=navigation", "environment.args={}", "policy.name=mlp", *FEDERATION)
    text = faults('profile = "lora"\n', *sets, "policy.args={ hidden = [16, 16] }")
    assert "agents.0.profile" in text and "over 'lora'" in text
    assert "lease_s = 5" in text and "give lease_s at least" in text


def test_the_advised_lease_outlasts_an_update_and_the_next_parameters():
    """An agent hears nothing from its update's first byte to THETA's last one: 4.5 s up, 4.5 s down.

    A heartbeat comes before; a lease of 6.5 s, which was advised once, doubled the bytes of each round.
    """
    sets = (
        "environment.family=navigation",
        "environment.args={}",
        "policy.name=mlp",
        "policy.args={}",
        *FEDERATION,
    )
    lora = 'profile = "lora"\n'  # 360 parameters: 3080 bytes each way
    for lease in (5, 6.5, 10.3):
        text = faults(lora, *sets, f"federation.lease_s={lease}")
        assert "10.3 s of silence" in text and "give lease_s at least 12," in text
    assert faults(lora, *sets, "federation.lease_s=12") == ""


def test_people_are_told_how_long_a_round_takes_over_a_link():
    """4.5 s each way, 0.06 s latency and up to 0.1 s jitter each way: ten rounds are a minute and a half."""
    scenario = tiny('profile = "lora"\n', *FEDERATION, "federation.lease_s=12", "algorithm.rounds=10")
    lines = link_lines(scenario, 360)
    assert lines == [
        "agents.0 over 'lora': a round takes about 9.33 s (4.5 s down, 4.5 s up), 10 rounds about 93 s"
    ]
    assert link_lines(tiny(), 360) == []


def test_a_round_that_outlasts_its_deadline_is_named_with_its_time():
    """Both ways, both latencies, and the device's delay per local step count."""
    link = "link = { bandwidth_bps = 1000, latency_s = 1 }\n"
    # 9 cells x 4 actions = 36 parameters: 488 bytes each way, 3.904 s, and 2 s of latency
    assert "at least 9.81 s" in faults(
        link, "federation.heartbeat_s=2", "federation.lease_s=30", "federation.round_deadline_s=9.8"
    )
    assert (
        faults(link, "federation.heartbeat_s=2", "federation.lease_s=30", "federation.round_deadline_s=9.9")
        == ""
    )
    slow = link + "compute_delay_s = 0.1\n"
    assert "at least 10" in faults(
        slow, "federation.heartbeat_s=2", "federation.lease_s=30", "federation.round_deadline_s=9.9"
    )


def test_agents_that_mostly_answer_too_late_are_a_fault():
    """A median above the deadline; at the deadline every second answer counts."""
    slow = "responsiveness = { median_s = 6, spread = 0.5 }\n"
    text = faults(slow, "federation.round_deadline_s=5")
    assert (
        "agents.0.responsiveness.median_s" in text and "longer than federation.round_deadline_s = 5" in text
    )
    assert faults(slow, "federation.round_deadline_s=6") == ""


def test_heartbeats_that_fill_the_link_are_a_fault():
    """130 bytes at 1000 bit/s take 1.04 s: one a second never arrives in time."""
    text = faults("link = { bandwidth_bps = 1000 }\n", *FEDERATION)
    assert "a heartbeat of 130 bytes takes 1.04 s over this link" in text


def test_completeness_and_control_variates_exclude_each_other():
    """c_i+ divides by all of the local steps."""
    control = "algorithm.correction=control_variate"
    assert "agents.0.completeness" in faults("completeness = 0.5\n", control)
    assert faults("completeness = 1.0\n", control) == faults("completeness = 0.5\n") == ""


def test_rounds_that_end_the_run_by_the_draw_are_foreseen():
    """Three skipped rounds in a row, known from the seed: the fault says which."""
    text = faults("availability = 0.05\n", "algorithm.rounds=50")
    assert "agents.0.availability" in text and "are skipped for too few updates" in text
    assert faults("availability = 0.95\n", "algorithm.rounds=50") == ""
    assert faults("connectivity = 0.2\n", "algorithm.rounds=50") != ""
    both = faults("availability = 0.9\nconnectivity = 0.1\n", "algorithm.rounds=50")
    assert "agents.0.connectivity" in both and "agents.0.availability" not in both, "the smaller one is named"


def test_the_word_that_leaves_too_few_updates_is_the_one_that_is_named():
    """Enough are asked and their updates are lost: connectivity; too few can be asked: availability."""
    alike = faults("availability = 0.3\nconnectivity = 0.3\n", "algorithm.rounds=50", "seed=1")
    assert "agents.0.connectivity" in alike and "agents.0.availability" not in alike
    need = ("federation.min_updates=3", "algorithm.rounds=50")
    asked = faults("availability = 0.2\nconnectivity = 0.19\n", *need)
    assert "agents.0.availability" in asked and "agents.0.connectivity" not in asked
