"""Modules that cannot be a policy: refused when they are built, each with its cause and the fix."""

import subprocess
import sys

import numpy as np
import pytest

from edge_fed.config import PolicyConfig, RunConfig
from edge_fed.policies import make_policy
from edge_fed.spaces import Spaces
from edge_fed.user_code import UserCodeError
from edge_fed.validation import check_run

SPACES = Spaces(num_actions=8, observation_shape=(2,))

BAD = {
    "batch norm": ("extra is BatchNorm1d: a batch's statistics tie its rows together", "nn.LayerNorm"),
    "dropout": ("extra is Dropout: it draws random numbers", "set p = 0"),
    "recurrent": ("extra is GRU: .* keeps no state between steps", "a window of past observations"),
    "lazy": ("extra.weight has no shape yet", "give the layer its sizes"),
    "half": ("extra.weight is torch.float16", "float32 or float64"),
    "default": ("it makes torch.float16 torch's default", "give its layers a dtype"),
    "default later": ("it makes torch.float16 torch's default", "give its layers a dtype"),
    "frozen": ("no parameters to learn", "requires_grad"),
    "constructor": ("calling it with num_actions, how failed: RuntimeError: no file of weights", "kwargs"),
    "infinite": ("NaN or infinity at its own initial parameters", "initialize it smaller"),
    "random": ("draws random numbers", "remove dropout and noise"),
    "buffer": ("changes its buffer calls", "no state between calls"),
    "state": ("two calls on the same rows differ", "no state between calls"),
    "rows": ("a row's output depends on the other rows", "nn.LayerNorm"),
    "shape": (r"of 4 observations of shape \(2,\) it makes \(4, 3\)", r"return \[n, 8\]"),
    "tuple": ("forward returns tuple", "one float tensor"),
    "integers": ("forward returns torch.int64", "one float tensor"),
    "fails": (r"forward fails on observations float32\[4, 2\]: RuntimeError", "observation_shape"),
    "exits": (r"forward fails on observations float32\[4, 2\]: SystemExit: 0", "observation_shape"),
    "constructor exits": ("calling it with num_actions, how failed: SystemExit: no file", "kwargs"),
    "once": ("it cannot be differentiated twice", "no second derivative"),
}


def build(name, spaces=SPACES, **args):
    """The policy of a network in `tests.edge_fed.nets`."""
    config = PolicyConfig(name="torch", args={"module": f"tests.edge_fed.nets:{name}", **args})
    return make_policy(config, spaces)


@pytest.fixture
def torch():
    """The library; without it these tests are skipped, and say so."""
    return pytest.importorskip("torch", reason="policy 'torch' needs PyTorch: pip install 'edge-fed[torch]'")


@pytest.mark.parametrize("how", BAD)
def test_a_module_that_cannot_be_a_policy_is_refused(how, torch):
    """By name of the module and of the part, with what to do instead."""
    what, fix = BAD[how]
    with pytest.raises(UserCodeError, match=f"nets:Bad': .*{what}.*; .*{fix}"):
        build("Bad", kwargs={"how": how})


def test_a_changed_default_is_put_back(torch):
    """Else the next module of the same settings would be another one: `check` ended with exit code 1."""
    for how in ("default", "default later"):
        with pytest.raises(UserCodeError):
            build("Bad", kwargs={"how": how})
        assert torch.get_default_dtype() is torch.float32


def test_a_module_that_exits_in_the_middle_of_a_run_is_named(torch):
    """Neither a step of a rollout nor a gradient may end the program, or the thread that it runs in."""
    policy, states = build("Bad", kwargs={"how": ""}), np.zeros((1, 3, 2))
    params = np.zeros(policy.dimension)
    trace = policy.begin(params, states)
    policy.act(trace, 0, np.full((3, 1), 0.5))
    policy._module.how = "exits"
    with pytest.raises(UserCodeError, match="nets:Bad': forward raised SystemExit: 0; let it return"):
        policy.act(trace, 0, np.full((3, 1), 0.5))
    with pytest.raises(UserCodeError, match="nets:Bad': forward raised SystemExit: 0"):
        policy.score(trace, np.ones((1, 3)))


def test_what_only_looks_bad_is_accepted(torch):
    """The same module that does nothing of the kind; the check leaves torch's generator alone."""
    before = torch.get_rng_state()
    assert build("Bad", kwargs={"how": ""}).dimension == 24
    with pytest.raises(UserCodeError):
        build("Bad", kwargs={"how": "random"})
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("unsaid", "write `-> nn.Module` behind its parameters"),
        ("tuple_maker", "write `-> nn.Module` behind its parameters"),
        ("NO_FUNCTION", "'NO_FUNCTION' is no function or class"),
        ("Nett", "nets.py has no 'Nett'"),
    ],
)
def test_only_what_makes_a_module_is_called(name, problem, torch):
    """Settings come over the wire: a function that does not say what it makes is not called."""
    with pytest.raises(UserCodeError, match=problem):
        build(name)


def test_a_function_of_this_very_project_is_not_called(torch, tmp_path):
    """It may lie in the working directory, as in a clone."""
    args = {
        "module": "edge_fed.program.files:write_atomic",
        "kwargs": {"path": str(tmp_path / "x"), "data": ""},
    }
    with pytest.raises(UserCodeError, match="is a part of edge_fed"):
        make_policy(PolicyConfig(name="torch", args=args), SPACES)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("args", "path", "problem"),
    [
        ({}, "policy.args", "module"),
        ({"module": "mynet"}, "policy.args", "module:name"),
        ({"module": "nowhere:Net"}, "policy.args", "there is no nowhere.py"),
        ({"module": "tests.edge_fed.nets:Net", "hed": 1}, "policy.args", "did you mean 'head'"),
        ({"module": "tests.edge_fed.nets:Net", "threads": 0}, "policy.args", "threads"),
        ({"module": "tests.edge_fed.nets:Net", "head": "gaussian"}, "policy.args", "use head 'categorical'"),
        ({"module": "tests.edge_fed.nets:Bad", "kwargs": {"how": "rows"}}, "policy.args", "other rows"),
    ],
)
def test_check_finds_it_before_the_run(args, path, problem, torch):
    """As a fault of the scenario's own key."""
    faults = check_run(RunConfig(policy=PolicyConfig(name="torch", args=args)))
    assert [fault.path for fault in faults] == [path]
    assert problem in faults[0].message


def run_without_torch(code):
    """Runs some lines in a Python that cannot import torch."""
    head = "import sys\nsys.modules['torch'] = None\n"
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, timeout=60)


def test_a_machine_without_torch_is_told_what_to_install():
    """As a fault of the scenario, not as a trace."""
    found = run_without_torch(
        "from edge_fed.config import PolicyConfig, RunConfig\n"
        "from edge_fed.validation import check_run\n"
        "print(*check_run(RunConfig(policy=PolicyConfig(name='torch', args={'module': 'a:b'}))))\n"
    )
    assert "pip install 'edge-fed[torch]'" in found.stdout, found.stderr


def test_nothing_imports_torch_for_a_policy_in_numpy():
    """Server, agent, plain loop, check and a misfit's message work where torch cannot be imported."""
    found = run_without_torch(
        "import msgspec, tempfile, pathlib\n"
        "import agent.command_line, agent.learner, server.command_line, scenarios.command_line\n"
        "from agent import events as e\n"
        "from edge_fed.config import EnvironmentConfig, Overrides, PolicyConfig, RunConfig\n"
        "from edge_fed.validation import check_run\n"
        "from scenarios.plain import run_plain\n"
        "from scenarios.watching import Silent\n"
        "from server.admission import Admission\n"
        "from tests.scenarios.tiny import tiny\n"
        "config = RunConfig()\n"
        "assert check_run(config) == []\n"
        "Admission(config, bytes(16))\n"
        "learner = agent.learner.Learner(0, Overrides(), pathlib.Path(tempfile.mkdtemp()))\n"
        "learner.build(e.Build(1, config=msgspec.to_builtins(config), run=bytes(16)))\n"
        "assert run_plain(tiny(), Silent()).failure is None\n"
        "misfit = RunConfig(environment=EnvironmentConfig(family='gridworld', horizon=15))\n"
        "print(*check_run(misfit))\n"
    )
    assert "choose 'softmax', 'torch'" in found.stdout, found.stderr
