"""Thermostats: physics, clock, prices, rewards, success."""

import numpy as np
import pytest

from edge_fed.envs.thermostats import Thermostats, ThermostatsEnvironment, price
from edge_fed.seeding import Purpose, stream

BUILDING = {
    "conductance": 0.2,
    "exchange": 0.8,
    "air": 1.5,
    "mass": 8.0,
    "outdoor": 3.0,
    "set_point": 21.0,
    "price_weight": 0.1,
    "occupied_from": 18.0,
    "power": 6.0,
}


def building(**changed) -> ThermostatsEnvironment:
    """One whose parameters are known."""
    return ThermostatsEnvironment(horizon=47, discount=0.97, **{**BUILDING, **changed})


def observed(air, mass, outside, hour) -> np.ndarray:
    """One state from temperatures in degrees Celsius and the hour, ``[1, 6]``."""
    turn = 2 * np.pi * hour / 24
    cost = float(price(np.array([hour % 24]))[0])
    return np.array([[(air - 20) / 5, (mass - 20) / 5, (outside - 5) / 10, np.sin(turn), np.cos(turn), cost]])


def test_two_days_follow_the_differential_equations():
    """Six Euler steps per half hour, written out, in every goal's building to 1e-11 K; Tout to 1e-12."""
    family = Thermostats(47, 0.97, {})
    for goal in (0, 5, 23):
        drawn, environment, rng = family.drawn(goal), family.make(goal), np.random.default_rng(goal)
        states = environment.start(rng, 7)
        air, mass = states[:, 0] * 5 + 20, states[:, 1] * 5 + 20
        day = states[:, 2] * 10 + 5 - 4 * np.cos(2 * np.pi * -15 / 24)
        for slot in range(96):
            outside = day + 4 * np.cos(2 * np.pi * (slot / 2 - 15) / 24)
            assert np.allclose(states[:, 2] * 10 + 5, outside, rtol=0, atol=1e-12)
            actions = rng.integers(0, 5, 7)
            heat, out = 6 * actions / 4, np.empty_like(states)
            for _ in range(6):
                gain = 0.7 * heat + drawn["conductance"] * (outside - air) + drawn["exchange"] * (mass - air)
                stored = 0.3 * heat + drawn["exchange"] * (air - mass)
                air, mass = air + gain / drawn["air"] / 12, mass + stored / drawn["mass"] / 12
            environment.step(states, actions, out)
            states = out
            assert np.allclose(states[:, :2] * 5 + 20, np.stack([air, mass], axis=1), rtol=0, atol=1e-11)


def test_the_clock_turns_and_prices_follow_it():
    """Sine, cosine and price of every half hour, over two days, to 1e-15 and exactly."""
    environment = building()
    states = environment.start(stream(0, 0, 0, 0, Purpose.EVALUATE), 3)
    for slot in range(97):
        hour = slot / 2 % 24
        turn = 2 * np.pi * hour / 24
        expected = 1.0 if 17 <= hour < 21 else 0.6 if 7 <= hour < 17 else 0.3
        assert np.allclose(states[:, 3:5], [np.sin(turn), np.cos(turn)], rtol=0, atol=1e-14)
        assert (states[:, 5] == expected).all()
        out = np.empty_like(states)
        environment.step(states, np.array([0, 2, 4]), out)
        states = out


def test_a_day_starts_at_midnight():
    """Ta in [15, 21), Tm within 1 K of it, Tday normal around the goal's mean with a deviation of 2 K."""
    states = building().start(stream(1, 0, 0, 0, Purpose.EVALUATE), 20_000)
    air, mass = states[:, 0] * 5 + 20, states[:, 1] * 5 + 20
    assert 15 <= air.min() < 15.01 and 20.99 < air.max() < 21
    assert 0.99 < abs(mass - air).max() <= 1 + 1e-12
    day = states[:, 2] * 10 + 5 - 4 * np.cos(2 * np.pi * -15 / 24)
    assert abs(day.mean() - 3) < 5 * 2 / np.sqrt(20_000) and abs(day.std() - 2) < 0.05
    assert (states[:, 3:] == [0, 1, 0.3]).all()


@pytest.mark.parametrize(
    ("air", "hour", "action", "expected"),
    [
        (21.0, 19.0, 0, 1.0),
        (21.0, 19.0, 4, 1 - 0.1 * 1.0 * 6 * 0.5),  # the price of 6 kW for half an hour at the peak
        (22.0, 19.0, 0, 1.0),  # 1 K off costs nothing
        (23.5, 19.0, 0, 1 - 0.75 * 1.5 / 3),
        (18.5, 19.0, 2, 1 - 0.75 * 1.5 / 3 - 0.1 * 3 * 0.5),
        (5.0, 19.0, 0, 1 - 0.75),  # no more than that
        (5.0, 3.5, 0, 1 - 0.75),  # ten hours from 18:00 go past midnight
        (5.0, 4.0, 0, 1.0),
        (5.0, 17.5, 0, 1.0),
        (5.0, 12.0, 1, 1 - 0.1 * 0.6 * 1.5 * 0.5),
    ],
)
def test_the_reward_of_a_state_and_action(air, hour, action, expected):
    """Comfort while occupied, less the price of the heat that the action buys."""
    rewards = building().rewards(observed(air, 20.0, 0.0, hour)[None], np.array([[action]]))
    assert rewards.item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("off", "expected"), [(1.49, True), (1.51, False), (-1.49, True), (-1.51, False)])
def test_success_is_half_a_kelvin_of_mean_discomfort(off, expected):
    """Over the occupied hours alone: 0.49 K beyond the tolerance succeeds, 0.51 K does not."""
    hours = np.arange(48) / 2
    states = np.array([observed(21 + off if h >= 18 or h < 4 else 0.0, 20, 0, h) for h in hours])
    assert building().success(states).tolist() == [expected]


def test_people_are_home_in_the_evening_as_often_as_asked():
    """`evening` is the chance of 18:00; 0 and 1 are certain."""

    def share(evening: float) -> float:
        family = Thermostats(47, 0.97, {"goals": 400, "evening": evening})
        return float(np.mean([family.make(goal).occupied_from == 18.0 for goal in range(400)]))

    assert share(0.0) == 0.0 and share(1.0) == 1.0
    assert abs(share(0.5) - 0.5) < 0.1
