"""What check-env finds: one environment per mistake, and nothing in right ones."""

import pytest

from edge_fed.envs.gymnasium.making import make_env
from edge_fed.gym.examine import examine
from tests.edge_fed.gym import broken_envs, toy_envs


def examined(name, horizon=11, module=broken_envs.MODULE, **kwargs):
    """The examination of an environment of that module, or of a registered id."""
    id_ = name if "-v" in name else f"{module}:{name}"
    return examine(lambda: make_env(id_, kwargs), horizon, 0.9)


def told(examination, level):
    """Check -> message of the findings of one level."""
    return {f.check: f"{f.message} | {f.hint}" for f in examination.findings if f.level == level}


@pytest.mark.parametrize(
    ("name", "check", "says"),
    [
        ("GlobalDraws", "same seed", "differ in observations | in reset call super().reset(seed=seed)"),
        ("OwnGenerator", "history", "episode 2 alone in observations: something outlives the reset"),
        ("Wearing", "history", "set every attribute anew in reset"),
        ("Shared", "neighbours", "a class attribute"),
        ("make_hot", "values", "make_hot() raised OSError: no such port"),
    ],
)
def test_what_would_make_numbers_meaningless_is_an_error(name, check, says):
    """Randomness that no seed reaches, memory over episodes, instances that share, a factory that fails."""
    found = examined(name)
    assert not found.fit
    assert says in told(found, "error")[check]


def test_each_of_these_mistakes_is_told_from_the_others():
    """A generator of one's own is no missing seed, wear is no sharing."""
    assert set(told(examined("OwnGenerator"), "error")) - {"gymnasium"} == {"history"}
    assert set(told(examined("Wearing"), "error")) - {"gymnasium"} == {"history"}
    assert set(told(examined("Shared"), "error")) - {"gymnasium"} == {"neighbours"}


def test_returns_that_overflow_are_an_error():
    """By name and in few digits; nothing is suggested for them, and NumPy's own warning is not shown."""
    found = examined("Corridor", module=toy_envs.MODULE, gain=7e307)
    assert not found.fit and found.observed is None and found.suggestions == {}
    says = told(found, "error")["rewards"]
    assert says.startswith("rewards reach from 3.5e+307 to 1.75e+308, so large that returns are not finite")
    large = examined("Corridor", module=toy_envs.MODULE, gain=1e10)
    assert large.fit and "set reward_scale" in told(large, "warning")["rewards"]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("observation is NaN", "the observation after step 3 holds NaN or infinity"),
        ("observation has another shape", "step 3: the observation has float32 (1,)"),
        ("reward is NaN", "step 3: the reward is nan"),
        ("reward is an array", "step 3: the reward is a ndarray of shape (1,)"),
        ("four values", "step 3: step must return (observation, reward, terminated, truncated, info)"),
        ("raises", "step 3: step raised RuntimeError: the motor is hot"),
    ],
)
def test_values_that_a_run_would_refuse_are_errors(fault, says):
    """By the same adapter, with seed and step, although the first three steps are right."""
    found = examined("Broken", module=toy_envs.MODULE, fault=fault)
    assert told(found, "error")["values"].startswith("seed 1")
    assert says in told(found, "error")["values"]


@pytest.mark.parametrize(
    ("name", "kwargs", "says"),
    [
        ("Seen", {"kind": "Dict"}, "observations are Dict; Box and Discrete can be used: wrap it in"),
        ("Seen", {"kind": "Tuple"}, "observations are Tuple"),
        ("Seen", {"kind": "MultiDiscrete"}, "gymnasium.wrappers.FlattenObservation"),
        (
            "Done",
            {"kind": "Dict"},
            "actions are Dict; Box and Discrete can be used: a gymnasium.ActionWrapper",
        ),
        ("Done", {"kind": "MultiDiscrete"}, "Discrete(product)"),
        (
            "Done",
            {"kind": "unbounded"},
            "without finite bounds low < high: use gymnasium.wrappers.RescaleAction",
        ),
        ("Done", {"kind": "integers"}, "a Box of int64; use Discrete"),
        ("make_vector", {}, "is a VectorEnv: hand over one environment"),
        ("make_text", {}, "builtins.str is no gymnasium.Env"),
        ("Bare", {}, "it has no observation_space: set self.observation_space in __init__"),
    ],
)
def test_spaces_are_refused_by_name(name, kwargs, says):
    """Each with what to do; nothing else is tried then."""
    found = examined(name, **kwargs)
    assert {finding.check for finding in found.findings} == {"spaces"}
    assert says in found.findings[0].message


@pytest.mark.parametrize(
    ("name", "check", "says"),
    [
        ("Unit", "rewards", "step sizes are meant for returns of order 1 | set reward_scale"),
        ("Flat", "rewards", "every reward under random actions is 0"),
        ("Short", "ends", "every episode ends after its first step"),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(name, check, says):
    """A run would work, and learn little."""
    found = examined(name)
    assert says in told(found, "warning")[check]


def test_gymnasiums_own_findings_are_passed_on():
    """Its errors as errors, its warnings as warnings, without its colours."""
    found = examined("GlobalDraws")
    assert "AssertionError: Deterministic step observations" in told(found, "error")["gymnasium"]
    found = examined("Reused")
    assert "`seed` function is dropped" in told(found, "warning")["gymnasium"]
    assert "\x1b" not in str(found)


def test_right_environments_are_fit():
    """Ours, a wrapped one and one of Gymnasium's: no error, no warning, one note on rewards."""
    for found in (
        examined("Corridor", module=toy_envs.MODULE),
        examined("Drift", module=toy_envs.MODULE),
        examined("make_wrapped"),
        examined("Half"),
        examined("CartPole-v1", horizon=50),
    ):
        assert found.fit and told(found, "warning") == {}
        assert told(found, "note")["reward timing"].startswith("cannot be proved")


def test_numbers_are_those_of_the_episodes():
    """Lengths, ends, rewards and reach of what was played, and scales that bring them to order 1."""
    found = examined("Drift", module=toy_envs.MODULE, pull=2.0)
    seen, wanted = found.observed, found.suggestions
    assert (seen.mean_length, seen.terminated, seen.truncated, seen.success) == (12, 0, 0, None)
    assert seen.reward[1] <= 0 and seen.discounted_return[0] < seen.reward[0]
    assert wanted["reward_scale"] == pytest.approx(1 / -seen.discounted_return[0], rel=0.05)
    assert wanted["obs_scale"] == pytest.approx([1 / reach for reach in seen.reach], rel=0.05)
    found = examined("Corridor", module=toy_envs.MODULE, horizon=60)
    assert found.observed.terminated == 1 == found.observed.success
    assert "obs_scale" not in found.suggestions


def test_a_limit_of_its_own_is_noted():
    """What an environment cuts before the horizon counts nowhere, and that is said."""
    found = examined("Corridor", module=toy_envs.MODULE, limit=2)
    assert "cuts" in told(found, "note")["ends"] and "no bootstrap" in told(found, "note")["ends"]
    assert "ends" not in told(examined("Pendulum-v1", horizon=199), "note"), "its limit is H+1"


def test_a_bootstrapped_objective_is_noted():
    """Whoever trains with it is told what is added, and not that it counts nowhere."""
    for limit in (2, 10**9):
        make = lambda limit=limit: toy_envs.Corridor(limit=limit)  # noqa: E731
        found = told(examine(make, 11, 0.9, bootstrap=True), "note")
        assert found["objective"].startswith("bootstrap = 'value': training adds an estimate of what follows")
        assert "no bootstrap" not in str(found) and ("cuts" in found.get("ends", "")) is (limit == 2)
    assert "objective" not in told(examined("Corridor", module=toy_envs.MODULE), "note")


def test_everything_that_is_made_is_closed():
    """Also after an error."""
    made = []

    def make():
        made.append(toy_envs.Corridor())
        if len(made) == 4:
            raise ValueError("no more")
        return made[-1]

    assert told(examine(make, 5, 0.9), "error")["values"] == "no more | "
    assert [env.closed for env in made[:3]] == [1, 1, 1]
