"""The settings of a run as frozen records. The defaults are the few-shot experiment of the paper (E5).

One authority: the server holds a `RunConfig`, agents receive it in WELCOME. What an agent may change for
itself are the fields of `Overrides`, nothing else. Symbols of the paper stand beside each field.
Bounds that need only the field itself are given here; everything that needs two fields or a table, such as
the names of variants and estimators, is checked in `edge_fed.validation`.
"""

import math
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=10_000_000)]
CountOrNone = Annotated[int, Meta(ge=0, le=10_000_000)]
Seconds = Annotated[float, Meta(gt=0, le=1e7)]
Pace = Annotated[float, Meta(ge=0, le=1e4)]
MOST_DIGITS = 20  # seeds are written like goals
MOST_GOALS = 1_000_000  # in one list, before a family says which of them it has
Goals = str | tuple[int, ...]
"""Goals as a list ``[0, 1, 4]`` or as a string of ranges ``"0-2,4"``."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parent of all settings: frozen, and an unknown key is an error."""


class EnvironmentConfig(Settings, frozen=True, kw_only=True):
    """Which family of tasks; one goal of it is one agent's MDP."""

    family: str = "navigation"
    horizon: Annotated[int, Meta(ge=1, le=100_000)] = 20  # H transitions, H+1 actions
    discount: Annotated[float, Meta(ge=0, le=1)] = 0.9  # gamma
    args: dict[str, Any] = {}  # of the family; an agent may override them


class TaskConfig(Settings, frozen=True, kw_only=True):
    """What agents learn from."""

    kind: str = "reinforcement"  # edge_fed.federated.task.KINDS


class PolicyConfig(Settings, frozen=True, kw_only=True):
    """Which policy, shared by all agents."""

    name: str = "mlp"
    args: dict[str, Any] = {}


class DatasetConfig(Settings, frozen=True, kw_only=True):
    """Which examples, of tasks of kind ``supervised``; one goal is one user."""

    family: str = "blobs"  # edge_fed.datasets.DATASETS
    args: dict[str, Any] = {}  # edge_fed.supervised.partition.PartitionArgs


class ModelConfig(Settings, frozen=True, kw_only=True):
    """Which model, of tasks of kind ``supervised``; shared by all agents."""

    name: str = "mlp-elu"  # edge_fed.supervised.MODELS
    args: dict[str, Any] = {}


class Algorithm(Settings, frozen=True, kw_only=True):
    """Per-FedAvg-PG and its variants."""

    variant: str = "first_order"  # edge_fed.meta.VARIANTS
    rounds: CountOrNone = 150  # K
    local_steps: Count = 5  # tau
    inner_step_size: Annotated[float, Meta(ge=0, le=1e6)] = 1.0  # alpha
    outer_step_size: Annotated[float, Meta(ge=0, le=1e6)] = 0.2  # beta
    inner_batch: Count = 10  # m_in
    hessian_batch: CountOrNone = 10  # m_h; first_order and sg_mrl accept and do not use it
    outer_batch: Count = 10  # m_out
    inner_gradient: Literal["plain", "recursive"] = "plain"  # g_in of training: edge_fed.meta.inner_gradient
    inner_momentum: Annotated[float, Meta(ge=0, le=1)] = 0.5  # 1 - eta of the recursive one
    curvature_batch: Literal["fresh", "inner"] = "fresh"  # inner: D_h = D_in (biased), m_h is not used
    curvature: str = "naive"  # of `exact`: edge_fed.meta.CURVATURES
    guard: Annotated[float, Meta(gt=0, le=1e6)] | Literal["off"] = "off"  # kappa
    baseline: str = "none"  # in training: edge_fed.meta.BASELINES
    # in adaptation at evaluation and onboarding; None: as the family says, edge_fed.envs.base.Family
    adapt_baseline: Literal["none", "loo"] | None = None
    adapt_steps: Count = 1
    participation: Annotated[float, Meta(gt=0, le=1)] = 1.0  # r
    aggregation: str = "uniform"  # weights: edge_fed.federated.aggregation.AGGREGATIONS
    rule: str = "mean"  # edge_fed.federated.robust.RULES
    byzantine: Annotated[int, Meta(ge=0, le=10_000)] = 1  # f, of `trimmed_mean` and `krum`
    clip_norm: Annotated[float, Meta(ge=1e-9, le=1e12)] | Literal["off"] = "off"  # of `clipped_mean`
    correction: Literal["none", "control_variate"] = "none"  # edge_fed.federated.control_variate


class Federation(Settings, frozen=True, kw_only=True):
    """Who is waited for, and how long. All times in seconds."""

    quorum: Count | None = None  # READY agents needed to start; None: all planned
    min_updates: Count | None = None  # updates that make a round valid; None: half of the cohort
    join_deadline_s: Seconds = 300.0  # restarts with each new READY
    max_update_norm: Annotated[float, Meta(gt=0, le=1e300)] | Literal["off"] = "off"  # longer: refused
    quarantine_after: Count | Literal["off"] = 3  # refused updates in a row: edge_fed.federated.quarantine
    round_deadline_s: Seconds = 60.0  # hard, from the round's opening
    heartbeat_s: Seconds = 1.0
    lease_s: Seconds = 5.0  # silence after which an agent is lost
    durability: Literal["process", "power"] = "process"  # fsync once a second | each round
    evaluate_every: CountOrNone = 0  # rounds between evaluations; 0: before round 1 and after round K
    keep_checkpoints: CountOrNone = 0  # newest checkpoints kept; 0: all
    keep_best: CountOrNone = 0  # beside them: those with the highest evaluated meta objective


class Responsiveness(Settings, frozen=True, kw_only=True):
    """How long an agent takes before it begins to work in a round: log-normal, drawn anew in each."""

    median_s: Annotated[float, Meta(ge=0, le=1e4)] = 0.0
    spread: Annotated[float, Meta(ge=0, le=2)] = 0.0  # standard deviation of its logarithm


class Attack(Settings, frozen=True, kw_only=True):
    """What an agent of an experiment sends instead of its update: edge_fed.federated.attacks."""

    kind: str
    scale: Annotated[float, Meta(gt=0, le=1e12)] = 1.0


class Device(Settings, frozen=True, kw_only=True):
    """What a run knows of an agent whose environment is one real plant: edge_fed.plant.

    The agent says it of itself (``--device``). In ``[[agents]]`` it is a plan for `check` alone: whoever
    plays that goal without a plant is no device.
    """

    pace_s: Pace = 0.0  # least time between two actions; 0: the plant's own steps take their time
    reset: Literal["always", "never"] = "always"  # never: an episode starts where the last one ended
    daily_trajectories: Count | None = None  # None: as many as the run asks for
    shielded: bool = False  # something may put other actions in place of the policy's
    saves: bool = False  # it wants the final parameters, to adapt them for itself (--save)


class Overrides(Settings, frozen=True, kw_only=True):
    """What one agent may change for itself. Unset (None, empty) means: as the run says."""

    args: dict[str, Any] = {}  # environment arguments, over [environment] args
    inner_batch: Count | None = None
    hessian_batch: CountOrNone | None = None
    outer_batch: Count | None = None
    curvature: str | None = None
    compute_delay_s: Annotated[float, Meta(ge=0, le=1e4)] | None = (
        None  # slower device: added to each local step
    )
    profile: str | None = None  # preset of the emulated link: edge_fed.profiles.PRESETS
    link: dict[str, float] | None = None  # keys of protocol.link.LinkProfile, over the preset's
    completeness: Annotated[float, Meta(gt=0, le=1)] | None = None  # least part of the local steps done
    responsiveness: Responsiveness | None = None
    attack: Attack | None = None  # in [[agents]] alone; no agent may ask for it
    device: Device | None = None  # it works on a real plant: nobody else can compute its updates


class Agents(Overrides, frozen=True, kw_only=True):
    """One ``[[agents]]`` table: goals, their overrides, and what only the run may say of them."""

    goals: Goals
    availability: Annotated[float, Meta(gt=0, le=1)] = 1.0  # chance that it can be asked in a round
    connectivity: Annotated[float, Meta(gt=0, le=1)] = 1.0  # chance that its update gets through
    weight: Annotated[float, Meta(ge=1e-6, le=1e6)] = 1.0  # of its updates in the mean, times `aggregation`'s


class Onboarding(Settings, frozen=True, kw_only=True):
    """How agents that never trained are measured after round K (and the baselines beside them)."""

    goals: Goals = ()  # announced onboarders: the server waits for their reports
    m_adapt: tuple[CountOrNone, ...] = (
        0,
        20,
        50,
        100,
        200,
        500,
    )  # trajectories of the one step; 0: zero-shot
    adapt_episodes: Count = 256  # adaptation pool in evaluations during training
    eval_episodes: Count = 512  # scoring episodes per row
    scratch: tuple[Count, ...] = (20, 100, 500)  # from-scratch budgets in trajectories; empty: none
    scratch_batch: Count = 20
    scratch_step_size: Annotated[float, Meta(gt=0, le=1e6)] = 0.2
    random: bool = True  # also score the untrained policy
    step_size: Annotated[float, Meta(ge=0, le=1e6)] | None = None  # None: the run's inner_step_size
    # of supervised tasks: what a user adapts with before its test images are scored. train: its training
    # images; split: a part of the test images, the rest is scored; test: the sources' protocol, LEAKS
    adapt_from: Literal["train", "split", "test"] = "train"
    careful: bool = True  # also: no step that was not tried, edge_fed.meta.careful; what --save keeps


class Privacy(Settings, frozen=True, kw_only=True):
    """Each agent clips its update, adds noise to it, and only then sends it: edge_fed.federated.privacy."""

    clip_norm: Annotated[float, Meta(gt=0, le=1e12)] | Literal["off"] = "off"  # C, Euclidean, of the update
    noise_multiplier: Annotated[float, Meta(ge=0, le=1e6)] = 0.0  # z: standard deviation z C per coordinate
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-5  # of the stated (epsilon, delta)

    @property
    def noisy(self) -> bool:
        """Whether agents add noise from secrets of their own: such a run cannot be computed again."""
        return self.noise_multiplier > 0


class RunConfig(Settings, frozen=True, kw_only=True):
    """Everything a server needs to know; `python -m server --config FILE` reads these keys."""

    name: str = "few-shot"
    description: str = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    task: TaskConfig = TaskConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    policy: PolicyConfig = PolicyConfig()
    dataset: DatasetConfig = DatasetConfig()  # in place of environment and policy, if kind is supervised
    model: ModelConfig = ModelConfig()
    algorithm: Algorithm = Algorithm()
    federation: Federation = Federation()
    agents: tuple[Agents, ...] = (Agents(goals="0-5"),)
    onboarding: Onboarding = Onboarding(goals="6-8")
    privacy: Privacy = Privacy()


def parse_goals(goals: Goals) -> tuple[int, ...]:
    """Turns ``"0-2,4"`` or ``[0, 1, 2, 4]`` into ascending goal numbers.

    Raises:
        ValueError: The text is no list of ranges, or a goal is named twice or negative.
    """
    found: list[int] = []
    for item in goals.replace(" ", "").split(",") if isinstance(goals, str) else goals:
        part = str(item)
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise ValueError(f'{item!r} is no goal or range of goals; write e.g. "0-5" or [0, 1, 4]')
        if max(len(low), len(high)) > MOST_DIGITS:
            raise ValueError(f"{part[:30]!r}... is no number of a goal")
        first, last = int(low), int(high or low)
        if not 0 <= last - first < MOST_GOALS - len(found):
            raise ValueError(f"{item!r} is an empty or absurd range")
        found.extend(range(first, last + 1))
    if len(set(found)) != len(found):
        raise ValueError("a goal is named twice")
    return tuple(sorted(found))


def overrides_by_goal(config: RunConfig) -> dict[int, Overrides]:
    """The planned agents: goal -> what its ``[[agents]]`` table overrides, in ascending goal."""
    fields = Overrides.__struct_fields__
    planned: dict[int, Overrides] = {}
    for table in config.agents:
        override = Overrides(**{name: getattr(table, name) for name in fields})
        planned.update((goal, override) for goal in parse_goals(table.goals))
    return dict(sorted(planned.items()))


def merge(first: Overrides, second: Overrides) -> Overrides:
    """The overrides of ``second`` over those of ``first``; environment args are merged key by key."""
    changed = {
        name: getattr(second, name)
        for name in Overrides.__struct_fields__
        if name != "args" and getattr(second, name) is not None
    }
    return msgspec.structs.replace(first, args={**first.args, **second.args}, **changed)


def max_norm(federation: Federation) -> float:
    """Euclidean norm above which an update is refused; infinity: none is."""
    return math.inf if federation.max_update_norm == "off" else federation.max_update_norm


def effective_algorithm(algorithm: Algorithm, overrides: Overrides) -> Algorithm:
    """The settings one agent works with: the run's, with its batch sizes and curvature estimator."""
    names = ("inner_batch", "hessian_batch", "outer_batch", "curvature")
    changed = {name: getattr(overrides, name) for name in names if getattr(overrides, name) is not None}
    return msgspec.structs.replace(algorithm, **changed)


def changed(overrides: Overrides) -> dict[str, Any]:
    """What is set in ``overrides``, as plain values; empty for an agent that works as the run says."""
    plain: dict[str, Any] = msgspec.to_builtins(overrides)
    return {name: value for name, value in plain.items() if value is not None and value != {}}
