"""Families of agents that differ: what personalising is worth on them, and whether they are evidence for it.

Such a study has the arms ``specialist`` (trained long on the held-out goal itself: its ``scratch`` rows
of the largest budget), ``uniform`` (its zero-shot row is the uniform policy) and methods that train a shared
initialization. The gate (methods.md 8) is passed if, of returns of held-out agents,

    (specialist - best shared) / (specialist - uniform) >= 0.2,

where the best shared is the best zero-shot initialization. Below that, one policy serves all.
"""

from collections.abc import Iterator

import msgspec
from rich.table import Table

from scenarios.report import table_of
from scenarios.study.results import Results
from scenarios.study.statistics import Summary, number, summarize

THRESHOLD = 0.2
SPECIALIST, UNIFORM = "specialist", "uniform"
POLICIES = ("learned", "careful", "tuned", "scratch")
HEADS = ("arm", "policy", "trajectories", "return", "95 % interval", "worst agent", "hurt", "kept")


class Gate(msgspec.Struct, frozen=True):
    """The gate of one family.

    Attributes:
        best: Arm whose initialization is the best shared policy.
        budget: Trajectories of each specialist.
        returns: Mean held-out returns: specialist, best shared, uniform.
        share: The ratio, of the means and with an interval over seeds.
    """

    best: str
    budget: int
    returns: tuple[float, float, float]
    share: Summary

    @property
    def passed(self) -> bool:
        """Whether the mean ratio reaches the threshold."""
        return self.share.mean >= THRESHOLD


def gate_of(results: Results) -> Gate | None:
    """The gate; None: the study has no arms for it."""
    if not {SPECIALIST, UNIFORM} <= set(results.arms):
        return None
    budget = max(row.m for row in results.rows if (row.arm, row.policy) == (SPECIALIST, "scratch"))
    specialist = results.values(SPECIALIST, "return", "scratch", budget)
    uniform = results.values(UNIFORM, "return", "learned")
    shared = {arm: results.values(arm, "return", "learned") for arm in _shared(results)}
    best = max(shared, key=lambda arm: summarize([*shared[arm].values()]).mean)
    seeds = sorted(specialist.keys() & uniform.keys() & shared[best].keys())
    shares = [(specialist[seed] - shared[best][seed]) / (specialist[seed] - uniform[seed]) for seed in seeds]
    means = [summarize([found[seed] for seed in seeds]).mean for found in (specialist, shared[best], uniform)]
    return Gate(best, budget, (means[0], means[1], means[2]), summarize(shares))


def _shared(results: Results) -> list[str]:
    """Arms that trained: their newest round is not 0."""
    return [arm for arm in results.arms if max(row.round for row in results.rows if row.arm == arm)]


def gate_line(gate: Gate) -> str:
    """For people."""
    specialist, shared, uniform = map(number, gate.returns)
    interval = gate.share.interval
    verdict = "passed" if gate.passed else f"NOT passed (needs {THRESHOLD})"
    return (
        f"gate: (specialist {specialist} - {gate.best} zero-shot {shared}) / (specialist - uniform {uniform})"
        f" = {number(gate.share.mean)} ({number(interval.low)} to {number(interval.high)}), {verdict}; "
        f"a specialist has {gate.budget:,} trajectories"
    )


def held_out_table(results: Results) -> Table:
    """Returns of the held-out agents: one row per arm, policy and budget."""
    return table_of("Held-out agents, means over goals and seeds", HEADS, list(_rows(results)))


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    places = dict.fromkeys(
        (row.arm, row.policy, row.m)
        for row in results.rows
        if row.outcome == "return" and row.policy in POLICIES
    )
    shared = _shared(results)
    for arm, policy, m in places:
        if policy != "scratch" and arm not in shared and (arm, m) != (UNIFORM, 0):
            continue
        summary = summarize([*results.values(arm, "return", policy, m).values()])
        interval = f"{number(summary.interval.low)} to {number(summary.interval.high)}"
        others = (_mean(results, arm, name, policy, m) for name in ("worst_return", "fraction_hurt"))
        kept = _mean(results, arm, "fraction_kept", policy, m)
        yield arm, policy, f"{m:,}", number(summary.mean), interval, *others, kept


def _mean(results: Results, arm: str, outcome: str, policy: str, m: int) -> str:
    there = any(
        (row.arm, row.outcome, row.policy, row.m) == (arm, outcome, policy, m) for row in results.rows
    )
    return number(summarize([*results.values(arm, outcome, policy, m).values()]).mean) if there else ""
