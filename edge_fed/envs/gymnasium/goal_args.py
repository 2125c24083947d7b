"""The arguments of one goal's environment, from what a scenario says of all of them.

Each value of ``env_args`` is one of

- a number, text or truth value: the same for every goal;
- a list: one value per goal, training goals first;
- ``{ uniform = [low, high] }``, ``{ log_uniform = [low, high] }``, ``{ normal = [mean, sd] }``,
  ``{ choice = [...] }``: drawn for each goal;
- ``{ value = ... }``: exactly this for every goal, also a list or a table.

What is drawn depends on (family seed, goal, name of the argument) alone: neither on the run's seed, nor on
the number of goals, nor on the other arguments.
"""

import math
import zlib
from collections.abc import Callable
from typing import Any

from numpy.random import Generator

from edge_fed.errors import nearest
from edge_fed.seeding import Purpose, stream


def goal_args(env_args: dict[str, Any], goal: int, seed: int) -> dict[str, Any]:
    """The keyword arguments of one goal's environment; `insist` has found nothing wrong with ``env_args``."""
    return {name: _value(name, spec, goal, seed) for name, spec in env_args.items()}


def insist(env_args: dict[str, Any], goals: int) -> None:
    """Refuses what `goal_args` could not read.

    Raises:
        ValueError: A list of another length than ``goals``, an unknown distribution or wrong numbers in one.
    """
    for name, spec in env_args.items():
        where = f"env_args.{name}"
        if isinstance(spec, list | tuple) and len(spec) != goals:
            raise ValueError(
                f"{where} is a list of {len(spec)}, but there are {goals} goals: one value per goal, "
                "training goals first; write { value = [...] } if every goal gets this list, "
                "{ uniform = [low, high] } for a range"
            )
        if isinstance(spec, dict):
            _insist_on_draw(where, spec)


def _value(name: str, spec: Any, goal: int, seed: int) -> Any:
    if isinstance(spec, list | tuple):
        return spec[goal]
    if not isinstance(spec, dict):
        return spec
    ((kind, given),) = spec.items()
    if kind == "value":
        return given
    return DRAWS[kind](stream(seed, goal, 0, zlib.crc32(name.encode()), Purpose.GOAL), given)


def _insist_on_draw(where: str, spec: dict[str, Any]) -> None:
    kind = next(iter(spec), "")
    if len(spec) != 1 or kind not in (*DRAWS, "value"):
        raise ValueError(
            f"{where} = {spec} is no distribution; {nearest(str(kind), [*DRAWS, 'value'])} "
            "(write { value = {...} } for a table as it stands)"
        )
    given = spec[kind]
    if kind == "choice":
        if not isinstance(given, list | tuple) or not given:
            raise ValueError(f"{where}.choice must be a list of one or more, found {given!r}")
    elif kind != "value" and not _pair(kind, given):
        raise ValueError(f"{where}.{kind} must be {_PAIRS[kind]}, found {given!r}")


def _pair(kind: str, given: Any) -> bool:
    if not isinstance(given, list | tuple) or len(given) != 2:
        return False
    if not all(type(number) in (int, float) and math.isfinite(number) for number in given):
        return False
    first, second = given
    return bool(second >= 0) if kind == "normal" else first <= second and (kind == "uniform" or first > 0)


_PAIRS = {
    "uniform": "[lowest, highest]",
    "log_uniform": "[lowest, highest], both above 0",
    "normal": "[mean, standard deviation]",
}


def _uniform(rng: Generator, given: Any) -> float:
    low, high = given
    return float(low + (high - low) * rng.random())


def _log_uniform(rng: Generator, given: Any) -> float:
    low, high = given
    return float(low * (high / low) ** rng.random())


def _normal(rng: Generator, given: Any) -> float:
    mean, sd = given
    return float(mean + sd * rng.standard_normal())


def _choice(rng: Generator, given: Any) -> Any:
    return given[int(rng.integers(len(given)))]


DRAWS: dict[str, Callable[[Generator, Any], Any]] = {
    "choice": _choice,
    "log_uniform": _log_uniform,
    "normal": _normal,
    "uniform": _uniform,
}
"""Distributions by name: a new one is one function and one line here."""
