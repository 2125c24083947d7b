"""``gradcheck`` as a person types it: what it prints, how it ends, what it refuses."""

import itertools
import json

import numpy as np
import pytest

from edge_fed.config import RunConfig
from edge_fed.federated.task import initial_params
from edge_fed.gradcheck import Check, Findings
from edge_fed.policies import POLICIES
from edge_fed.policies.mlp import Mlp, make_mlp
from scenarios import gradcheck, patience
from scenarios.command_line import main

FEW = ("--trajectories", "256", "--set", "environment.horizon=4")  # too few to see anything sampled


def found(capsys: pytest.CaptureFixture[str], *flags: str, code: int = 0) -> dict:
    """The one object that --json prints."""
    assert main(["gradcheck", "--json", *flags]) == code
    return json.loads(capsys.readouterr().out)


def test_the_few_shot_scenario_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Navigation and the network, the first planned agent; every check passes."""
    result = found(capsys)
    assert result["success"] and result["agent"] == 0
    assert (result["family"], result["policy"]) == ("navigation", "mlp 2-32-8 tanh softmax")
    assert {"score", "second", "frequencies", "return along g"} <= {c["name"] for c in result["checks"]}
    assert all(check["passed"] and check["measured"] <= check["limit"] for check in result["checks"])
    assert any("Markov" in line for line in result["not_proved"])


def test_scenario_agent_and_settings_count(capsys: pytest.CaptureFixture[str]) -> None:
    """A finite family is held against its model; policy, seed and agent are those that were asked for."""
    result = found(capsys, "gridworld-exact", "--agent", "5", "--set", "seed=9")
    assert (result["agent"], result["seed"], result["policy"]) == (5, 9, "softmax 25x4")
    assert {"starts", "moves", "gradient", "curvature naive"} <= {c["name"] for c in result["checks"]}
    other = found(capsys, "--set", "policy.args.hidden=[3]", "--agent", "8")
    assert (other["policy"], other["agent"]) == ("mlp 2-3-8 tanh softmax", 8)  # a held-out one


@pytest.mark.parametrize("family", ["few-shot", "gridworld-exact"])
def test_a_module_of_torch_is_checked_in_double_precision(
    family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every check passes for a user's float32 module, whose own differences would show noise."""
    pytest.importorskip("torch", reason="policy 'torch' needs PyTorch: pip install 'edge-fed[torch]'")
    name = "Net" if family == "few-shot" else "Table"
    policy = ("--set", "policy.name=torch", "--set", f"policy.args.module=tests.edge_fed.nets:{name}")
    result = found(capsys, family, *policy)
    assert result["success"] and "float64" in result["policy"]


class _WrongSign(Mlp):
    """Descends."""

    def score(self, trace, w):
        return -super().score(trace, w)


def test_a_failed_check_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy from the table whose score has the wrong sign, for a program and for people."""

    def make(spaces, args):
        return _WrongSign(spaces, make_mlp(spaces, args).network.sizes[1:-1])

    monkeypatch.setitem(POLICIES, "mlp", make)
    result = found(capsys, *FEW, code=1)
    assert not result["success"]
    assert next(check["name"] for check in result["checks"] if not check["passed"]) == "score"
    assert main(["gradcheck", *FEW]) == 1
    said = capsys.readouterr().out
    assert "FAIL" in said and "mend the first one first: score" in said


def test_people_read_what_is_proved_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """Each check with its deviation and limit, the gaps, the verdict."""
    assert main(["gradcheck"]) == 0
    said = capsys.readouterr().out
    for words in ("score", "PASS", "6e-07 relative", "4 s.e.", "change of J", "Not proved:", "Markov"):
        assert words in said
    assert said.rstrip().endswith("all 9 checks passed")


def test_a_check_that_could_not_have_failed_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """Noise as large as the gradient: BLIND, no success, exit code 1, and what to do; nothing failed."""
    result = found(capsys, *FEW, code=1)
    assert not result["success"]
    (blind,) = [check for check in result["checks"] if not check["passed"]]
    assert (blind["name"], blind["result"]) == ("return along g", "BLIND")
    assert blind["blind"] > 1 and blind["measured"] <= blind["limit"]
    assert main(["gradcheck", *FEW]) == 1
    said = capsys.readouterr().out
    assert f"1 of 9 checks is blind: return along g (errors up to {blind['blind']:.0%})" in said
    assert "next: more --trajectories" in said and "failed" not in said and "all 9" not in said


def test_slow_checks_say_what_they_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, so that --json stays one object; nothing if it takes no time."""
    monkeypatch.setattr(patience.time, "monotonic", itertools.count(0.0, 2.0).__next__)
    assert main(["gradcheck", "--json", *FEW]) == 1
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert lines[0] == "gradcheck: sampled gradients, batch 1 of 64"
    assert lines[-1] == "gradcheck: sampled returns, batch 64 of 64"
    json.loads(said.out)
    monkeypatch.setattr(patience.time, "monotonic", lambda: 0.0)
    assert main(["gradcheck", *FEW]) == 1
    assert capsys.readouterr().err == ""


def test_infinite_deviations_are_null_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON has no infinity and no NaN."""
    checks = (
        Check("starts", np.inf, 6.0, "s.e.", ""),
        Check("gradient", np.nan, 4.0, "s.e.", "", "", np.inf),
    )
    monkeypatch.setattr(gradcheck, "gradcheck", lambda *_: Findings(checks, ()))
    result = found(capsys, code=1)
    assert [check["measured"] for check in result["checks"]] == [None, None]
    assert result["checks"][1]["blind"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--agent", "99"], "--agent 99"),
        (["--trajectories", "0"], "--trajectories 0"),
        (["--trajectories", "127"], "--trajectories 127: must be 128 to 1000000"),
        (["--trajectories", "99999999999"], "--trajectories 99999999999: must be 128 to 1000000"),
        (["no-such-scenario"], "no-such-scenario"),
        (["--set", "policy.name=sofmax"], "did you mean 'softmax'"),
        (["--set", "policy.name=softmax"], "policy.name"),
    ],
)
def test_wrong_flags_are_refused_by_name(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, with what was wrong."""
    assert main(["gradcheck", *flags]) == 2
    assert words in capsys.readouterr().err


def test_parameters_are_those_of_the_configured_initialization(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is checked lies beside the run's own initial parameters."""
    seen = []

    def spy(task, initial, seed, trajectories, report):
        seen.append((initial, seed, trajectories))
        return Findings((), ())

    monkeypatch.setattr(gradcheck, "gradcheck", spy)
    assert main(["gradcheck", "--json"]) == 0
    ((initial, seed, trajectories),) = seen
    assert np.array_equal(initial, initial_params(RunConfig()))
    assert (seed, trajectories) == (0, None)
