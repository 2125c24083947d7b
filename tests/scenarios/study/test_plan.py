"""Reading studies."""

import msgspec
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.errors import ConfigError
from scenarios.study.plan import Tuning, config_hash, load_study, paper_studies
from tests.scenarios.study.small import write_study
from tests.scenarios.tiny import ONBOARDING, tiny


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
        config_hash(tiny("", "federation.max_update_norm=2"), None, diagnose=False),
        config_hash(tiny("", "federation.quarantine_after=2"), None, diagnose=False),
        config_hash(tiny("", "algorithm.rule=median"), None, diagnose=False),
        config_hash(tiny("", "agents.0.completeness=0.5"), None, diagnose=False),
        config_hash(tiny(), Tuning(goals="1", step_sizes=(0.1, 1.0)), diagnose=False),
        config_hash(tiny(), None, diagnose=True),
    ]
    assert len({plain, *changed}) == 1 + len(changed)


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
        ('wrong = "key"', "", "wrong: unknown key"),
        ('outcomes = ["succes"]', "", "nothing measures 'succes'.*success"),
        ('outcomes = [""]', "", "nothing measures ''"),
        (
            "",
            '[[arms]]\nname = "exact"\nset = ["algorithm.inner_step_size=0"]\n[[arms]]\nname="exact"',
            "two arms.*exact",
        ),
        ("", '[[arms]]\nname = "bad"\nset = ["algorithm.variant=nothing"]', "arm bad.*nothing"),
        ("", '[[arms]]\nname = "bad"\nset = ["algorithm.inner_batch"]', "inner_batch.*is no override"),
        ("", '[[arms]]\nname = "bad"\nset = ["seed=7"]', r"arms\.2: sets the seed"),
        ("", '[[arms]]\nname = "bad"\ngrid = { "seed" = [1, 2] }', r"arms\.2: sets the seed"),
        ("", '[[arms]]\nname = "bad"\ngrid = { "algorithm.rounds" = [] }', r"algorithm\.rounds: is empty"),
        ("", '[[arms]]\nname = "bad"\ngrid = { "algorithm.wrong" = [1] }', "wrong"),
        ("", '[[arms]]\nname = "a b"', r"arms\.2\.name: is 'a b'"),
        ("", '[[arms]]\nname = ".."', r"arms\.2\.name"),
        ("", '[[arms]]\nname = "a\\n"', r"arms\.2\.name"),
        ("", '[tuning]\ngoals = "7"\nstep_sizes = [1]', "step_sizes"),
        ("", '[tuning]\ngoals = "8"\nstep_sizes = [1, 2]', "goal 8 is held out"),
        ("", '[tuning]\ngoals = "3"\nstep_sizes = [1, 2]', "goal 3 trains"),
        ("", '[tuning]\ngoals = "500"\nstep_sizes = [1, 2]', "has no goal 500"),
        ("", '[tuning]\ngoals = "abc"\nstep_sizes = [1, 2]', "tuning.goals: 'abc'"),
        ("", "[tuning]\ngoals = []\nstep_sizes = [1, 2]", "tuning.goals: is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, more, tail, word):
    """A fault of the study's own keys, or of an arm's scenario, names its place."""
    with pytest.raises(ConfigError, match=word):
        load_study(str(write_study(tmp_path, more, tail)))


def test_tuning_needs_somebody_to_tune_for(tmp_path):
    """Without held-out goals, or without a budget, nothing would be adapted with the chosen alpha."""
    tail = '[tuning]\ngoals = "7"\nstep_sizes = [1, 2]'
    for scenario in ("", ONBOARDING.replace("[0, 10]", "[0]")):
        with pytest.raises(ConfigError, match="nothing would be adapted"):
            load_study(str(write_study(tmp_path, tail=tail, scenario=scenario)))


def test_empty_or_absurd_seeds_are_refused(tmp_path):
    """So is a list that is none."""
    for seeds in ('""', '"x"', "[]", '"0-10000"', '"3-1"', '"9223372036854775808"'):
        path = write_study(tmp_path)
        path.write_text(path.read_text().replace('"0-1"', seeds))
        with pytest.raises(ConfigError, match="seeds"):
            load_study(str(path))


def test_a_grid_value_is_what_runs(tmp_path):
    """All of its digits, also where two values agree in the first six."""
    tail = '[[arms]]\nname = "fine"\ngrid = { "algorithm.inner_step_size" = [0.1234567, 0.1234568] }'
    study = load_study(str(write_study(tmp_path, tail=tail)))
    assert [arm.scenario.algorithm.inner_step_size for arm in study.arms[-2:]] == [0.1234567, 0.1234568]


def test_min_updates_changes_the_hash():
    """It decides which rounds are skipped, and so the numbers, also in the plain loop."""
    found = {
        config_hash(tiny("", *sets), None, diagnose=False)
        for sets in ((), ("federation.min_updates=2",), ("federation.min_updates=3",))
    }
    assert len(found) == 3


def test_a_packaged_name_means_the_packaged_study(tmp_path, monkeypatch):
    """Whatever lies in the current folder under the name of a study, or of the scenario it builds on."""
    expected = load_study("personalization").digest
    monkeypatch.chdir(tmp_path)
    for name in ("personalization", "gridworld-exact"):
        (tmp_path / name).write_text("rounds = 1")
    assert load_study("personalization").digest == expected


def test_every_study_of_the_paper_is_right():
    """They load, and each is named as its file."""
    for name in paper_studies():
        assert load_study(name).name == name
