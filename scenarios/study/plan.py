"""A study: arms times seeds, read from a TOML file and checked completely before anything runs.

name = "alpha-sweep"
description = "..."
scenario = "gridworld-exact"        # a library name, or a file beside the study
seeds = "0-9"
set = ["federation.evaluate_every=10"]              # of every arm, as --set says it
outcomes = ["meta_objective", "expected_return"]    # kept in the table; left out: all

[[arms]]
name = "exact"
set = ["algorithm.variant=exact"]
grid = { "algorithm.inner_step_size" = [0, 0.5, 1] }    # arms exact/inner_step_size=0, ...

[tuning]                            # alpha chosen on validation goals, once per run and budget
goals = "9-10"
step_sizes = [0.1, 0.3, 1, 3]
"""

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from edge_fed.config import Agents, Goals, Settings
from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.config_file import parse, read
from edge_fed.program.conversion import convert
from scenarios.script import library, load_scenario, runtime_faults
from scenarios.study import placebos
from scenarios.study.outcomes import KNOWN
from scenarios.study.seeds import parse_seeds
from scenarios.study.tuning import tuning_faults
from scenarios.timeline import Scenario

Value = bool | int | float | str
MOST_ARMS = 1000
LONGEST = 200  # of an arm's name, which names a folder, too

FIRST_KEYS = frozenset(
    {"goals", "args", "inner_batch", "hessian_batch", "outer_batch", "curvature", "compute_delay_s", "link"}
)
"""Keys of ``[[agents]]`` that `config_hash` takes whether or not they are set: so did the first results."""


class ArmTable(Settings, frozen=True, kw_only=True):
    """One ``[[arms]]`` table."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z", max_length=100)]
    set: tuple[str, ...] = ()
    grid: dict[str, tuple[Value, ...]] = msgspec.field(default_factory=dict)


class Tuning(Settings, frozen=True, kw_only=True):
    """The inner step size of the evaluation, chosen per run and budget by return on validation goals."""

    goals: Goals
    step_sizes: Annotated[tuple[Annotated[float, Meta(ge=0, le=1e6)], ...], Meta(min_length=2)]


class StudyFile(Settings, frozen=True, kw_only=True):
    """The keys of a study."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*\Z", max_length=100)] = ""
    description: str = ""
    scenario: str = "few-shot"
    seeds: Goals = "0-9"
    set: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    diagnose: bool = False
    arms: tuple[ArmTable, ...]
    tuning: Tuning | None = None


class Arm(msgspec.Struct, frozen=True):
    """One arm: a scenario without its seed.

    Attributes:
        name: ``<arm>``, or ``<arm>/<key>=<value>...`` of a grid.
        scenario: Checked and resolved.
        config: First 12 hexadecimal digits of the hash of all that its numbers depend on but the seed.
    """

    name: str
    scenario: Scenario
    config: str


class Study(msgspec.Struct, frozen=True):
    """A checked study.

    Attributes:
        name: Names the table, ``<name>.csv``.
        description: For people.
        arms: In order.
        seeds: Ascending.
        outcomes: Kept in the table; empty: all.
        diagnose: Whether `edge_fed.diagnostics` measures beside every evaluation.
        tuning: How ``tuned`` rows choose alpha; None: there are none.
    """

    name: str
    description: str
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]
    outcomes: tuple[str, ...]
    diagnose: bool
    tuning: Tuning | None

    @property
    def digest(self) -> str:
        """SHA-256 of arms, seeds and outcomes: what a preregistration fixes."""
        content = ([(arm.name, arm.config) for arm in self.arms], self.seeds, self.outcomes)
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()

    def arm(self, name: str) -> Arm:
        """The arm of this name; `KeyError` if there is none."""
        return {arm.name: arm for arm in self.arms}[name]


def paper_studies() -> dict[str, Path]:
    """The studies that come with edge_fed: name -> file."""
    folder = Path(str(resources.files("scenarios.paper"))) / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_study(name: str) -> Study:
    """Loads a study that comes with edge_fed by its name, or any other by its file.

    A packaged name always means the packaged study, whatever lies in the current folder; so do the names of
    the scenarios that a study builds on, unless a file lies beside the study.

    Raises:
        ConfigError: Lists every fault, of the study's own keys first, then of each arm's scenario.
    """
    placebos.register()
    known = paper_studies()
    path = known.get(name, Path(name))
    faults: list[Fault] = []
    found = convert(parse(read(path, known), str(path)), StudyFile, faults)
    if found is None or faults:
        raise ConfigError(faults, str(path))
    if faults := list(_faults(found)):
        raise ConfigError(faults, str(path))
    seeds = parse_seeds(found.seeds, "seeds", str(path))
    arms = tuple(_arms(found, path))
    names = [arm.name for arm in arms]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError([Fault("arms", f"two arms are named {twice!r}")], str(path))
    name = found.name or path.stem
    return Study(name, found.description, arms, seeds, found.outcomes, found.diagnose, found.tuning)


def _faults(found: StudyFile) -> Iterator[Fault]:
    """What is wrong beside single values."""
    if not found.arms:
        yield Fault("arms", "is empty", "add an [[arms]] table with a name")
    for outcome in found.outcomes:
        if outcome not in KNOWN:
            yield Fault("outcomes", f"nothing measures {outcome!r}", nearest(outcome, KNOWN))
    if sum(math.prod(map(len, table.grid.values())) for table in found.arms) > MOST_ARMS:
        yield Fault("arms", f"the grids make more than {MOST_ARMS:,} arms", "leave values out")
    for index, table in enumerate(found.arms):
        for key, values in table.grid.items():
            if not values:
                yield Fault(f"arms.{index}.grid.{key}", "is empty", "give it values, or leave it out")
        keys = [key.partition("=")[0].strip() for key in (*found.set, *table.set)]
        if "seed" in (*keys, *table.grid):
            yield Fault(f"arms.{index}", "sets the seed", "name seeds with the study's key seeds")


def _arms(found: StudyFile, path: Path) -> Iterator[Arm]:
    beside = path.parent / found.scenario
    scenario = str(beside if beside.is_file() else library().get(found.scenario, Path(found.scenario)))
    for table in found.arms:
        keys = list(table.grid)
        for values in itertools.product(*table.grid.values()):
            cell = dict(zip(keys, values, strict=True))
            name = "/".join(
                [table.name, *(f"{key.rpartition('.')[2]}={_text(v)}" for key, v in cell.items())]
            )
            sets = ["expect=[]", *found.set, *table.set, *(f"{key}={_text(v)}" for key, v in cell.items())]
            yield _arm(name, scenario, sets, found, path)


def _arm(name: str, scenario: str, sets: Sequence[str], found: StudyFile, path: Path) -> Arm:
    try:
        loaded = load_scenario(scenario, sets)
    except ConfigError as error:
        raise ConfigError(error.faults, f"{path}: arm {name}") from None
    if faults := runtime_faults(loaded, "plain"):
        raise ConfigError(faults, f"{path}: arm {name}")
    if found.tuning and (faults := list(tuning_faults(loaded, found.tuning.goals))):
        raise ConfigError(faults, f"{path}: arm {name}")
    if len(name) > LONGEST:
        raise ConfigError([Fault("arms", f"the name {name[:40]}... has {len(name)} characters")], str(path))
    return Arm(name, loaded, config_hash(loaded, found.tuning, diagnose=found.diagnose))


def _text(value: Value) -> str:
    """As ``--set`` reads it, and as names show it."""
    if isinstance(value, bool):
        return str(value).lower()
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


def config_hash(scenario: Scenario, tuning: Tuning | None, *, diagnose: bool) -> str:
    """Hash of all that an arm's numbers depend on but the seed, 12 hexadecimal digits.

    Only what differs from the defaults goes in, so that a key that is added later changes no hash;
    `tests/edge_fed/test_config.py` pins the defaults.
    """
    settings = msgspec.to_builtins(scenario)
    unset = msgspec.to_builtins(Scenario())
    content = _difference(settings, unset)
    if "agents" in content:
        content["agents"] = [_table(table) for table in content["agents"]]
    for name in ("name", "description", "seed", "expect", "federation"):
        content.pop(name, None)
    content["evaluate_every"] = scenario.federation.evaluate_every
    for name in ("min_updates", "max_update_norm", "quarantine_after"):
        if settings["federation"][name] != unset["federation"][name]:
            content[name] = settings["federation"][name]
    content["study"] = {"tuning": msgspec.to_builtins(tuning), "diagnose": diagnose}
    text = msgspec.json.encode(content, order="sorted")
    return hashlib.sha256(text).hexdigest()[:12]


def _table(agents: dict[str, Any]) -> dict[str, Any]:
    """A table of agents: its first keys whether or not they are set, and of later ones those that are."""
    unset = msgspec.to_builtins(Agents(goals=()))
    return {key: value for key, value in agents.items() if key in FIRST_KEYS or value != unset[key]}


def _difference(settings: dict[str, Any], unset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        default = unset.get(key)
        if isinstance(value, dict) and isinstance(default, dict) and key != "args":
            if below := _difference(value, default):
                found[key] = below
        elif value != default:
            found[key] = value
    return found
