"""``check-env`` as a command: what it reads, prints and returns."""

import json

import pytest

from scenarios import check_env
from scenarios.command_line import main
from tests.edge_fed.gym import broken_envs, toy_envs

CORRIDOR = f"{toy_envs.MODULE}:Corridor"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A short measurement of speed."""
    monkeypatch.setattr(check_env, "SPEED_S", 0.01)


def run(capsys, *arguments):
    """Exit code, the object on stdout, and what stands on stderr."""
    code = main(["check-env", *arguments, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out), printed.err


def checks(result, level="error"):
    """The checks that found something of this level."""
    return {finding["check"] for finding in result["findings"] if finding["level"] == level}


def scenario(tmp_path, args, **more):
    """A file of a user, otherwise unfinished: no policy fits, no agents."""
    lines = {"horizon": 7, "discount": 0.5, **more}
    path = tmp_path / "mine.toml"
    head = '[environment]\nfamily = "gymnasium"\n'
    path.write_text(head + "".join(f"{k} = {v}\n" for k, v in lines.items()) + f"args = {args}\n")
    return str(path)


def test_a_factory_is_examined_and_its_speed_measured(capsys):
    """Exit code 0; numbers of random episodes, steps per second, what could be set."""
    code, result, _ = run(capsys, CORRIDOR)
    assert code == 0 and result["success"] and checks(result) == set()
    assert (result["environment"], result["goal"], result["env_args"]) == (CORRIDOR, 0, {})
    assert result["goals"] == [*range(9)]
    assert result["observed"]["terminated"] == 1
    assert set(result["suggestions"]) == {"reward_scale"}
    assert all(value > 0 for value in result["speed"].values())
    assert set(result["speed"]) == {"make_s", "episodes_per_s", "steps_per_s"}


def test_the_goal_s_own_arguments_are_used(tmp_path, capsys):
    """Of a scenario, with its horizon; whether its policy fits is not asked."""
    path = scenario(tmp_path, f'{{ id = "{CORRIDOR}", goals = 2, held_out = 0, env_args.gain = [1.0, 3.0] }}')
    code, result, _ = run(capsys, path, "--goal", "1")
    assert (code, result["env_args"]) == (0, {"gain": 3.0})
    assert result["observed"]["reward"][1] == pytest.approx(7.5)
    assert result["observed"]["mean_length"] <= 8
    _, result, _ = run(
        capsys, path, "--goal", "1", "--horizon", "1", "--set", "environment.args.env_args.gain=9"
    )
    assert result["env_args"] == {"gain": 9}


def test_the_objective_of_a_scenario_is_noted(tmp_path, capsys):
    """What it says of ``bootstrap``, with a discount for which that means something."""
    path = scenario(tmp_path, f'{{ id = "{CORRIDOR}", goals = 2, held_out = 0, bootstrap = "value" }}')
    code, result, _ = run(capsys, path)
    assert code == 0 and "objective" in checks(result, "note")
    code, result, _ = run(capsys, path, "--set", "environment.discount=1")
    assert (code, checks(result)) == (1, {"family"})
    assert "objective" not in checks(run(capsys, CORRIDOR)[1], "note")


def test_observations_that_no_fit_of_values_can_hold_are_told(tmp_path, capsys):
    """A note, for a run may do without such fits; an error of one that bootstraps."""
    wide = f'{{ id = "{broken_envs.MODULE}:Sized", goals = 1, held_out = 0, env_args.entries = 1000 }}'
    path = scenario(tmp_path, wide)
    code, result, _ = run(capsys, path)
    assert code == 0 and "fits of values" in checks(result, "note")
    code, result, _ = run(capsys, path, "--set", "environment.args.bootstrap=value")
    assert (code, checks(result)) == (1, {"fits of values"})
    assert "2,001 features, at most 2,000" in str(result["findings"])


GAINS = f'{{ id = "{CORRIDOR}", goals = 3, held_out = 1, env_args.gain = [1.0, 1e5, 1.0, 1e6] }}'


def test_all_goals_are_covered(tmp_path, capsys):
    """A fault that goal 0 has not is found, once, at the first goal that has it, with its arguments."""
    path = scenario(tmp_path, GAINS)
    code, result, _ = run(capsys, path)
    assert (code, result["goal"], result["goals"]) == (0, 0, [0, 1, 2, 3])
    (found,) = (finding for finding in result["findings"] if finding["level"] == "warning")
    assert found["check"] == "rewards" and found["message"].startswith("goal 1: gain=100000.0: ")
    assert main(["check-env", path]) == 0
    assert "goals  all 4; what is seen, tried and timed is of goal 0" in capsys.readouterr().out


def test_goals_that_would_take_long_are_named(tmp_path, capsys, monkeypatch):
    """When the time is up, it says which goals were covered; those with the same arguments cost none."""
    monkeypatch.setattr(check_env, "GOALS_S", 0.0)
    path = scenario(tmp_path, GAINS)
    _, result, _ = run(capsys, path)
    assert (result["goals"], result["of_goals"], checks(result, "warning")) == ([0], 4, set())
    assert main(["check-env", path]) == 0
    assert "goals  only 0, of 4; another one: --goal K" in capsys.readouterr().out
    same = f'{{ id = "{CORRIDOR}", goals = 3, held_out = 1, env_args.gain = 2.0 }}'
    assert run(capsys, scenario(tmp_path, same))[1]["goals"] == [0, 1, 2, 3]


def test_the_time_that_goal_0_takes_counts(tmp_path, capsys, monkeypatch):
    """Made in 3 s each, four goals are too many: their instances alone would take minutes."""
    monkeypatch.setattr(toy_envs.Slow, "clock", 0.0)
    monkeypatch.setattr(check_env, "_now", lambda: toy_envs.Slow.clock)
    args = (
        f'{{ id = "{toy_envs.MODULE}:Slow", goals = 3, held_out = 1, env_args.gain = [1.0, 2.0, 3.0, 4.0] }}'
    )
    code, result, _ = run(capsys, scenario(tmp_path, args))
    assert (code, result["goals"], result["of_goals"]) == (0, [0], 4)
    assert toy_envs.Slow.clock < 90, "goal 0 and little more"


def test_one_goal_alone_is_what_the_flag_asks_for(tmp_path, capsys):
    """The others are not looked at."""
    _, result, _ = run(capsys, scenario(tmp_path, GAINS), "--goal", "2")
    assert (result["goals"], checks(result, "warning")) == ([2], set())


def test_goals_of_other_spaces_are_an_error_of_the_family(tmp_path, capsys):
    """One policy for all agents needs one shape; goal 0 alone is right."""
    sized = f'{{ id = "{broken_envs.MODULE}:Sized", goals = 3, held_out = 0, env_args.entries = [2, 2, 3] }}'
    code, result, _ = run(capsys, scenario(tmp_path, sized))
    assert (code, checks(result)) == (1, {"family"})
    assert "goal 2 has other spaces than goal 0" in result["findings"][-1]["message"]


def test_scales_that_do_not_fit_are_an_error_of_the_family(tmp_path, capsys):
    """The environment is right, the family cannot be made."""
    drift = f'{{ id = "{toy_envs.MODULE}:Drift", obs_scale = [1.0, 2.0, 3.0] }}'
    code, result, _ = run(capsys, scenario(tmp_path, drift))
    assert (code, checks(result)) == (1, {"family"})


def test_errors_have_the_exit_code_of_a_failure(capsys):
    """1, and the findings in text say what to do next."""
    code, result, _ = run(capsys, f"{broken_envs.MODULE}:Wearing")
    assert (code, result["success"], result["speed"]) == (1, False, None)
    assert main(["check-env", f"{broken_envs.MODULE}:Wearing"]) == 1
    text = capsys.readouterr().out
    assert "error  history: episode 2 after episode 1 differs" in text
    assert "next  set every attribute anew in reset" in text
    assert text.endswith("2 errors, mend the first one first\n")


def test_a_right_environment_in_words(capsys):
    """What was seen, what to try, how fast, and that it is fit."""
    assert main(["check-env", CORRIDOR]) == 0
    text = capsys.readouterr().out
    assert "seen  8 episodes under random actions" in text
    assert "try  args = { reward_scale = " in text
    assert "steps/s" in text and "the environment is fit for a run" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-file.toml"], "no such file"),
        ([CORRIDOR, "--goal", "9"], "--goal 9: there are goals 0 to 8"),
        ([CORRIDOR, "--horizon", "-1"], "environment.horizon"),
        ([CORRIDOR, "--set", "environment.args.gaols=3"], "no argument 'gaols'; did you mean 'goals'"),
        (["few-shot", "--goal", "9"], "navigation has goals 0 to 8"),
    ],
)
def test_wrong_usage_has_the_exit_code_of_usage(capsys, arguments, message):
    """2, with the fault by name."""
    code, result, complaint = run(capsys, *arguments)
    assert code == 2
    assert message in result["error"]["message"] and message in complaint


def test_families_of_arrays_go_through_their_own_checker(capsys):
    """A scenario of any family can be named."""
    assert run(capsys, "few-shot", "--goal", "3")[0] == 0
    code, result, _ = run(capsys, "few-shot")
    assert (code, result["goals"]) == (0, [*range(9)])


def test_what_an_environment_prints_is_kept_out_of_the_result(capsys):
    """JSON stays JSON; the prints go to stderr."""
    code, _, complaint = run(capsys, f"{broken_envs.MODULE}:Loud")
    assert code == 0 and "starting the plant" in complaint


def test_threads_that_outlive_close_are_a_warning(capsys):
    """By name."""
    broken_envs.Threaded.stop.clear()
    code, result, _ = run(capsys, f"{broken_envs.MODULE}:Threaded")
    broken_envs.Threaded.stop.set()
    assert (code, checks(result, "warning")) == (0, {"close"})
    assert "left-behind" in result["findings"][-1]["message"]
