"""The file of an adapted policy: what ``--save`` writes, what ``live`` acts with and keeps its state in.

A ``.npz`` of ``params`` and ``initial`` (the shared initialization), ``[d]`` each, and ``about``, JSON text:

    schema       2
    goal, run, round, m_adapt
    careful      whether no step was taken that was not tried
    step_size    alpha that it was adapted with
    task, environment, policy, algorithm, seed      of the run, `edge_fed.config`
    overrides    of this agent alone
    layout       where arrays lie in ``params``, and the environment's units: `edge_fed.export`
    life         of `python -m agent live` alone: `agent.life`

Beside them, for `docs/run_policy.py` and programs like it, the arrays of ``params`` by name, ready to use:
`edge_fed.export.arrays`. They are never read here, and a file of an earlier edge_fed has none. So the file
has the size of three vectors instead of two, and one way to be read.
"""

import io
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from edge_fed.config import CountOrNone, Overrides, RunConfig, changed
from edge_fed.envs.gymnasium import EpisodicEnvironment
from edge_fed.export import Layout, arrays, layout
from edge_fed.learner import Learner
from edge_fed.params import F8
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement
from edge_fed.spaces import Units

SCHEMA = 2
FIX = "save it again: python -m agent --goal K --save FILE.npz"


class PolicyFile(msgspec.Struct, frozen=True):
    """What the file holds.

    Attributes:
        params: Of the policy, ``[d]``.
        initial: The shared initialization, ``[d]``.
        about: Plain values.
    """

    params: F8
    initial: F8
    about: dict[str, Any]


class Adapted(msgspec.Struct, frozen=True):
    """What a life needs of ``about`` besides the run; bounds as in `edge_fed.config.Onboarding`.

    Attributes:
        goal: Whose.
        m_adapt: Trajectories.
        step_size: alpha.
    """

    goal: Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
    m_adapt: CountOrNone
    step_size: Annotated[float, msgspec.Meta(ge=0, le=1e6)]


def describe(config: RunConfig, task: Learner, goal: int, overrides: Overrides) -> dict[str, Any]:
    """What the file says about the task that the policy is for."""
    return {
        "schema": SCHEMA,
        "goal": goal,
        "seed": config.seed,
        "task": msgspec.to_builtins(config.task),
        "environment": msgspec.to_builtins(config.environment),
        "policy": msgspec.to_builtins(config.policy),
        "algorithm": msgspec.to_builtins(task.settings),
        "overrides": changed(overrides),
        "layout": _layout(task),
    }


def _layout(task: Learner) -> Layout:
    if isinstance(task, Reinforcement):
        there = task.environment
        units = there.units if isinstance(there, EpisodicEnvironment) else Units()
        return layout(task.policy, there.spaces, units)
    return {"description": task.description, "output": "other", "arrays": []}


def packed(file: PolicyFile) -> bytes:
    """The bytes of the file."""
    buffer, about = io.BytesIO(), np.array(json.dumps(file.about))
    np.savez(buffer, params=file.params, initial=file.initial, about=about, **_by_name(file))
    return buffer.getvalue()


def _by_name(file: PolicyFile) -> dict[str, Any]:
    return arrays(file.about["layout"], file.params) if "layout" in file.about else {}


def read(path: Path) -> PolicyFile:
    """Reads a file of this schema.

    Raises:
        ProgramError: There is none, or it is no such file; says what to do.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            found = PolicyFile(held["params"], held["initial"], json.loads(str(held["about"])))
    except OSError as error:
        raise ProgramError(ExitCode.USAGE, f"{path} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # zipfile, NumPy and json raise all kinds
        raise ProgramError(ExitCode.USAGE, f"{path} is no policy: {error!r}", FIX) from error
    schema = found.about.get("schema") if isinstance(found.about, dict) else None
    if schema != SCHEMA:
        raise ProgramError(ExitCode.USAGE, f"{path} has schema {schema}, this program reads {SCHEMA}", FIX)
    for name, array in (("params", found.params), ("initial", found.initial)):
        if array.ndim != 1 or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ProgramError(ExitCode.USAGE, f"{name} of {path} is no vector of finite numbers", FIX)
    try:
        _by_name(found)  # a life writes the file again
    except Exception as error:  # whatever stands where the layout should
        raise ProgramError(ExitCode.USAGE, f"the layout in {path} is damaged: {error!r}", FIX) from error
    return found
