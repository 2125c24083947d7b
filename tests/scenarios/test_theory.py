"""``theory`` as a person types it: what it prints, and what it refuses."""

import json

import pytest

from scenarios.command_line import main


def found(capsys: pytest.CaptureFixture[str], *flags: str) -> dict:
    """The one object that --json prints."""
    assert main(["theory", "--json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_gridworld_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """The published constants; at alpha = 0.5 the run is outside R2 and meets no condition."""
    result = found(capsys, "--family", "gridworld", "--alpha", "0.5", "--epsilon", "1e-2")
    assert result["success"] and result["agents"] == 8
    assert result["constants"]["L_J"] == pytest.approx(6800)
    assert result["constants"]["rho_J"] == pytest.approx(244_000)
    assert result["regime"]["name"] == "outside"
    assert [condition["name"] for condition in result["conditions"]] == ["i", "ii", "iv", "iii", "rounds"]
    assert not any(condition["holds"] for condition in result["conditions"])


def test_its_own_instance_meets_every_condition(capsys: pytest.CaptureFixture[str]) -> None:
    """The instance typed back as flags is met, and one that binds gives the largest outer step size."""
    enough = found(capsys, "--alpha", "1e-5")["instance"]
    flags = {
        "outer-step-size": enough["schedule"]["beta"],
        "local-steps": enough["schedule"]["local_steps"],
        "rounds": enough["schedule"]["rounds"],
        "inner-batch": enough["batches"]["m_in"],
    }
    typed = [part for name, value in flags.items() for part in (f"--{name}", repr(value))]
    result = found(capsys, "--alpha", "1e-5", *typed)
    assert all(condition["holds"] for condition in result["conditions"])
    limits = {c["name"]: c["limit"] for c in result["conditions"] if c["quantity"] == "beta"}
    assert result["largest_outer_step_size"] == limits[result["binds"]] == min(limits.values())
    assert not any("is outside" in line for line in result["not_covered"])


def test_the_family_and_its_settings_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Horizon and discount reach the constants: gamma = 0.5, H = 3 gives G_J = 8, L_J = 80."""
    constants = found(capsys, "--horizon", "3", "--discount", "0.5")["constants"]
    assert (constants["Rbar"], constants["G_J"], constants["L_J"]) == (2, 8, 80)


def test_people_read_the_regime_and_what_is_not_covered(capsys: pytest.CaptureFixture[str]) -> None:
    """Constants, conditions, what binds, and the gaps: guard, baselines, step sizes, log-std."""
    assert main(["theory", "--alpha", "0.5"]) == 0
    said = capsys.readouterr().out
    expected = ["L_J", "6800", "outside R2", "(iv) noise", "unmet", "binding for beta", "guarded runs"]
    expected += ["baselines loo and value", "alpha = 0.5 is outside", "beta = 0.3 is outside", "log-std"]
    for words in expected:
        assert words in said
    assert main(["theory", "--alpha", "0"]) == 0
    said = capsys.readouterr().out
    assert "R1" in said and "alpha = 0 is outside" not in said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--family", "navigation"], "unbounded scores"),
        (["--family", "pendulum"], "learned log-std"),
        (["--family", "gridwold"], "did you mean 'gridworld'?"),
        (["--discount", "1"], "discount = 1"),
        (["--alpha", "-1"], "alpha = -1"),
        (["--alpha", "nan"], "alpha = nan"),
        (["--alpha", "1e300"], "beyond floating point"),
        (["--alpha", "1e60"], "beyond floating point"),
        (["--epsilon", "0"], "--epsilon 0"),
        (["--hessian-batch", "0"], "--hessian-batch 0"),
        (["--horizon", "-1"], "horizon"),
    ],
)
def test_what_the_theory_has_no_statement_for(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line that names the value; with --json still one object."""
    assert main(["theory", "--json", *flags]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert words in json.loads(captured.out)["error"]["message"]
