"""What is wrong with rules against Byzantine agents, and with agents that attack: found from the settings."""

from collections.abc import Collection, Iterator

from edge_fed.config import Algorithm, RunConfig
from edge_fed.envs.gymnasium import bootstraps
from edge_fed.errors import Fault
from edge_fed.federated.attacks import COLLUDING, attackers
from edge_fed.federated.cohort import cohort_size
from edge_fed.federated.robust import RULES
from edge_fed.meta import BASELINES
from edge_fed.meta.base import Baseline


def byzantine_faults(config: RunConfig, at_start: Collection[int]) -> Iterator[Fault]:
    """What is wrong with the run's rule and its attackers.

    Args:
        config: Settings whose single fields are valid.
        at_start: Planned agents that are there when the run starts.
    """
    yield from _rule(config.algorithm, len(at_start))
    yield from _attacks(config)


def _rule(settings: Algorithm, at_start: int) -> Iterator[Fault]:
    """Settings under which a rule beside the mean has no meaning."""
    name = settings.rule
    if name == "mean" or name not in RULES:
        return
    if settings.aggregation != "uniform":
        yield Fault(
            "algorithm.aggregation",
            f"is {settings.aggregation!r}, but rule {name!r} weighs agents alike: a weight that an agent "
            "states itself would be its way around the rule",
            "choose aggregation 'uniform', or rule 'mean'",
        )
    if settings.correction != "none":
        yield Fault(
            "algorithm.rule",
            f"is {name!r}, but control variates cancel only in a plain mean",
            "choose rule 'mean', or correction 'none'",
        )
    if name == "clipped_mean" and settings.clip_norm == "off":
        message = "is off, but rule 'clipped_mean' shortens updates to it"
        yield Fault("algorithm.clip_norm", message, "give it the longest norm that an honest update may have")
    asked, needs = cohort_size(at_start, settings.participation), RULES[name].needs(settings.byzantine)
    if at_start and needs > asked:
        yield Fault(
            "algorithm.byzantine",
            f"is {settings.byzantine}: rule {name!r} then needs {needs} updates, but a round asks {asked} of "
            f"{at_start} agents, so that every round would be skipped",
            "lower it, ask more agents, or choose rule 'median'",
        )


def _attacks(config: RunConfig) -> Iterator[Fault]:
    """Attacks that could not be carried out, or that nobody is left to suffer."""
    tables = [(index, table) for index, table in enumerate(config.agents) if table.attack is not None]
    if tables and len(tables) == len(config.agents):
        yield Fault("agents", "everybody attacks", "add [[agents]] without attack")
    for index, table in tables:
        if config.privacy.clip_norm != "off":
            yield Fault(
                f"agents.{index}.attack",
                "is set, but with privacy.clip_norm its own program would clip what it sends, and add noise",
                "leave one of the two out; against attackers the server clips: rule 'clipped_mean'",
            )
        if table.attack is not None and table.attack.kind == COLLUDING:
            yield from _colluding(config, f"agents.{index}.attack.kind")


def _colluding(config: RunConfig, path: str) -> Iterator[Fault]:
    """Without several honest updates there is no spread; with agent state they cannot be known."""
    if sum(attack.kind == COLLUDING for attack in attackers(config).values()) < 2:
        message = f"is {COLLUDING!r}, but a single agent has no spread of honest updates to hide in"
        yield Fault(path, message, "give the table two goals or more")
    baseline = config.algorithm.baseline
    learns = baseline in BASELINES and BASELINES[baseline].after is not Baseline.after
    for name, value in (("baseline", learns and baseline), ("correction", config.algorithm.correction)):
        if value and value != "none":
            yield Fault(
                path,
                f"is {COLLUDING!r}, but with {name} {value!r} updates depend on agent state, which "
                "attackers do not know of each other",
                f"choose another attack, or {name} 'none'",
            )
    if any(bootstraps(config.environment, table.args) for table in config.agents):
        yield Fault(
            path,
            f"is {COLLUDING!r}, but with bootstrap 'value' updates depend on agent state, which attackers do "
            "not know of each other",
            "choose another attack, or bootstrap 'none'",
        )
