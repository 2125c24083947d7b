"""What is wrong with single values wherever they stand: numbers, names, sizes."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.datasets import DATASETS
from edge_fed.envs import FAMILIES
from edge_fed.errors import Fault, nearest
from edge_fed.federated.aggregation import AGGREGATIONS
from edge_fed.federated.attacks import ATTACKS
from edge_fed.federated.robust import RULES
from edge_fed.federated.task import KINDS
from edge_fed.meta import BASELINES, CURVATURES, VARIANTS
from edge_fed.policies import POLICIES
from edge_fed.profiles import LINK_BOUNDS, PRESETS
from edge_fed.supervised import MODELS
from edge_fed.supervised.directions import DIRECTIONS, PRODUCTS
from edge_fed.tables import Table
from edge_fed.user_code import UserCodeError

MAX_CONFIG_BYTES = 60_000  # of the 64 KiB of a WELCOME's header
MAX_NAME_BYTES = 200  # the name is a part of the run folder's name


def number_faults(config: RunConfig) -> Iterator[Fault]:
    """NaN, infinity and integers that no wire carries, wherever they stand."""
    yield from _finite(msgspec.to_builtins(config), "")
    for index, table in enumerate(config.agents):
        if table.link is not None:
            yield from link_faults(table.link, f"agents.{index}.link")


def _finite(value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _finite(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from _finite(below, f"{path}.{index}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(path, f"is {value}, expected a finite number")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield Fault(path, "is too large, expected a number of 64 bits")


def link_faults(link: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """What is wrong with the keys and values of an emulated link."""
    for key, value in link.items():
        if key not in LINK_BOUNDS:
            yield Fault(f"{path}.{key}", "unknown key of a link", nearest(key, LINK_BOUNDS))
            continue
        low, high = LINK_BOUNDS[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            yield Fault(f"{path}.{key}", f"is {value!r}, expected a number from {low:g} to {high:g}")


def size_faults(config: RunConfig) -> Iterator[Fault]:
    """Settings that do not fit the one message in which agents receive them."""
    try:
        sizes = {
            name: len(msgspec.msgpack.encode(getattr(config, name))) for name in RunConfig.__struct_fields__
        }
    except (OverflowError, ValueError):  # reported by `number_faults`
        return
    total, largest = sum(sizes.values()), max(sizes, key=lambda name: sizes[name])
    if total > MAX_CONFIG_BYTES:
        why = f"takes {sizes[largest]} of {total} bytes, but agents receive all settings in one message"
        yield Fault(largest, why, f"shorten it: {MAX_CONFIG_BYTES} bytes fit in all")


def run_name_faults(name: str) -> Iterator[Fault]:
    """A name that cannot be the last part of a folder's name, or that no terminal shows."""
    if not name:
        yield Fault("name", "is empty", 'leave it out, or write e.g. name = "my-fleet"')
    elif "/" in name or not name.isprintable():
        yield Fault("name", f"is {name!r}, but a folder is named after it", "leave / and control signs out")
    elif len(name.encode()) > MAX_NAME_BYTES:
        yield Fault("name", f"has {len(name.encode())} bytes, at most {MAX_NAME_BYTES} fit a folder's name")


def name_faults(config: RunConfig) -> Iterator[Fault]:
    """Names that are in no table."""
    algorithm = config.algorithm
    tables: list[tuple[str, str, str, Collection[str]]] = [
        ("task.kind", "kind of task", config.task.kind, KINDS),
        *_names_of_kind(config),
        ("algorithm.aggregation", "weights", algorithm.aggregation, AGGREGATIONS),
        ("algorithm.rule", "aggregation rule", algorithm.rule, RULES),
    ]
    for index, table in enumerate(config.agents):
        if table.curvature is not None:
            path = f"agents.{index}.curvature"
            known = PRODUCTS if config.task.kind == "supervised" else CURVATURES
            tables.append((path, "curvature estimator", table.curvature, known))
        if table.attack is not None:
            tables.append((f"agents.{index}.attack.kind", "attack", table.attack.kind, ATTACKS))
        if table.profile is not None:
            tables.append((f"agents.{index}.profile", "profile of a link", table.profile, PRESETS))
    for path, what, name, names in tables:
        if name not in names:
            yield Fault(path, f"unknown {what} {name!r}", nearest(name, names))
        elif isinstance(names, Table) and not path.startswith("agents."):  # a peer's words load nothing
            yield from _unloadable(names, name, path)


def _unloadable(table: Table[Any], name: str, path: str) -> Iterator[Fault]:
    """A ``module:name`` of the user's that cannot be loaded."""
    try:
        table[name]
    except UserCodeError as error:
        yield Fault(path, str(error).removeprefix(f"{table.what}: "))


def _names_of_kind(config: RunConfig) -> list[tuple[str, str, str, Collection[str]]]:
    """The names whose tables depend on the kind of task: path, what it is, the name, the table."""
    algorithm = config.algorithm
    if config.task.kind == "supervised":
        curved: list[tuple[str, str, str, Collection[str]]] = [
            ("algorithm.curvature", "curvature estimator", algorithm.curvature, PRODUCTS)
        ]
        return [
            ("dataset.family", "data set", config.dataset.family, DATASETS),
            ("model.name", "model", config.model.name, MODELS),
            ("algorithm.variant", "variant of supervised tasks", algorithm.variant, DIRECTIONS),
            *(curved if algorithm.variant == "exact" else []),
        ]
    return [
        ("environment.family", "family", config.environment.family, FAMILIES),
        ("policy.name", "policy", config.policy.name, POLICIES),
        ("algorithm.variant", "variant", algorithm.variant, VARIANTS),
        ("algorithm.curvature", "curvature estimator", algorithm.curvature, CURVATURES),
        ("algorithm.baseline", "baseline", algorithm.baseline, BASELINES),
    ]
