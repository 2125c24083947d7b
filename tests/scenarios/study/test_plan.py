"""Reading studies."""

import msgspec
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.errors import ConfigError
from scenarios.study.plan import Tuning, config_hash, load_study, paper_studies
from tests.scenarios.study.small import write_study
from tests.scenarios.tiny import tiny


def test_a_grid_makes_one_arm_per_value(tmp_path):
    """Arms carry the value in their name and in their settings; sets of the study reach all."""
    study = load_study(str(write_study(tmp_path)))
    assert [arm.name for arm in study.arms] == [
        "first_order",
        "exact/inner_step_size=0",
        "exact/inner_step_size=0.5",
        "exact/inner_step_size=1",
    ]
    assert [arm.scenario.algorithm.inner_step_size for arm in study.arms] == [1.0, 0.0, 0.5, 1.0]
    assert {arm.scenario.algorithm.rounds for arm in study.arms} == {3}
    assert [arm.scenario.algorithm.variant for arm in study.arms] == ["first_order", *["exact"] * 3]
    assert study.seeds == (0, 1)


def test_the_hash_of_an_arm_changes_with_what_changes_numbers():
    """Not with name, seed, expectations or deadlines; with every other key, and with the tuning."""
    plain = config_hash(tiny(), None, diagnose=False)
    for same in (tiny("", "seed=5"), tiny("", "name=x"), tiny("", "federation.round_deadline_s=9")):
        assert config_hash(same, None, diagnose=False) == plain
    changed = [
        config_hash(tiny("", "algorithm.inner_batch=5"), None, diagnose=False),
        config_hash(tiny("", "environment.args.size=4"), None, diagnose=False),
        config_hash(tiny("", "agents.0.goals=0-2"), None, diagnose=False),
        config_hash(tiny("", "federation.evaluate_every=2"), None, diagnose=False),
        config_hash(tiny(), Tuning(goals="1", step_sizes=(0.1, 1.0)), diagnose=False),
        config_hash(tiny(), None, diagnose=True),
    ]
    assert len({plain, *changed}) == 7


def test_a_key_at_its_default_is_not_in_the_hash():
    """So that a key added later leaves the hash of old results as it is."""
    scenario = tiny()
    family = msgspec.structs.replace(scenario.environment, discount=EnvironmentConfig().discount)
    same = msgspec.structs.replace(scenario, environment=family)
    assert config_hash(same, None, diagnose=False) == config_hash(scenario, None, diagnose=False)


def test_the_digest_changes_with_arms_seeds_and_outcomes(tmp_path):
    """It is what a preregistration fixes."""
    digests = {
        load_study(str(write_study(tmp_path, more, tail))).digest
        for more, tail in (("", ""), ('outcomes = ["success"]', ""), ("", '[[arms]]\nname = "another"'))
    }
    path = write_study(tmp_path)
    path.write_text(path.read_text().replace('"0-1"', '"0-2"'))
    assert len({*digests, load_study(str(path)).digest}) == 4


@pytest.mark.parametrize(
    ("more", "tail", "word"),
    [
        ('wrong = "key"', "", "wrong"),
        (
            "",
            '[[arms]]\nname = "exact"\nset = ["algorithm.inner_step_size=0"]\n[[arms]]\nname="exact"',
            "exact",
        ),
        ("", '[[arms]]\nname = "bad"\nset = ["algorithm.variant=nothing"]', "nothing"),
        ("", '[[arms]]\nname = "bad"\nset = ["algorithm.inner_batch"]', "inner_batch"),
        ("", '[[arms]]\nname = "a b"', "name"),
        ("", '[tuning]\ngoals = "9"\nstep_sizes = [1]', "step_sizes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, more, tail, word):
    """A fault of the study's own keys, or of an arm's scenario, names its place."""
    with pytest.raises(ConfigError, match=word):
        load_study(str(write_study(tmp_path, more, tail)))


def test_empty_seeds_are_refused(tmp_path):
    """And a list that is none."""
    for seeds in ('""', '"x"', "[]"):
        path = write_study(tmp_path)
        path.write_text(path.read_text().replace('"0-1"', seeds))
        with pytest.raises(ConfigError, match="seeds"):
            load_study(str(path))


def test_every_study_of_the_paper_is_right():
    """They load, and each is named as its file."""
    for name in paper_studies():
        assert load_study(name).name == name
