"""One cell of a study: one arm with one seed, trained by the plain loop, measured into rows of the table."""

import statistics
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from edge_fed.config import Onboarding, Overrides, overrides_by_goal, parse_goals
from edge_fed.diagnostics import diagnose
from edge_fed.errors import EdgeFedError
from edge_fed.federated.attacks import attackers
from edge_fed.federated.task import make_learner
from edge_fed.learner import Onboarded
from edge_fed.params import F8
from edge_fed.program.fingerprint import fingerprint
from edge_fed.reinforcement import Reinforcement
from edge_fed.summaries import evaluation_summary, onboarding_summary
from scenarios.outcome import Outcome
from scenarios.plain import PlainRun
from scenarios.study import placebos
from scenarios.study.outcomes import HELD_OUT, PROTOCOLS, SHARED
from scenarios.study.plan import Arm, Study, Tuning
from scenarios.study.results import Measurement
from scenarios.timeline import Scenario
from scenarios.watching import Line, Silent

BYTES_PER_PARAMETER = 8

Numbers = Mapping[str, float | None]


class Cell(msgspec.Struct, frozen=True):
    """What one run gave.

    Attributes:
        config: Of its arm.
        params_sha256: Of the parameters after the last round: the same as of a networked run.
        rows: Its part of the table.
        outcomes: That were kept; empty: all.
        fingerprint: Of the arithmetic that it was computed with.
        preregistration: SHA-256 of the file that the run kept to; None: of none.
    """

    config: str
    params_sha256: str
    rows: tuple[Measurement, ...]
    outcomes: tuple[str, ...]
    fingerprint: str
    preregistration: str | None = None


def run_cell(study: Study, arm: Arm, seed: int) -> Cell:
    """Trains and measures.

    Raises:
        EdgeFedError: The run failed, or ended early for want of agents, as it would over a network.
    """
    began, cpu = time.monotonic(), time.process_time()
    placebos.register()
    scenario = msgspec.structs.replace(arm.scenario, seed=seed)
    watch = _Diagnoses(scenario, study.diagnose)
    run = PlainRun(without_onboarding(scenario), watch, None)
    watch.run = run
    outcome = run.play()
    if outcome.failure:
        at = f"its run ended after round {outcome.last_round} of {scenario.algorithm.rounds}"
        raise EdgeFedError(f"{at}: {outcome.failure.message}")
    table = _Table(arm, seed, study.outcomes, scenario.algorithm.rounds)
    _training(table, outcome, watch.found)
    _protocols(table, scenario, run)
    spent = _held_out(table, scenario, run.params, study.tuning)
    _budgets(table, outcome, run, spent)
    table.add("run", {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu})
    return Cell(arm.config, str(outcome.params_sha256), tuple(table.rows), study.outcomes, fingerprint())


def without_onboarding(scenario: Scenario) -> Scenario:
    """The same run without its onboarders at the end: the cell measures them itself, with every alpha."""
    return msgspec.structs.replace(
        scenario, onboarding=msgspec.structs.replace(scenario.onboarding, goals=()), expect=()
    )


class _Diagnoses(Silent):
    """Measures the shared parameters beside every evaluation of the run."""

    run: PlainRun

    def __init__(self, scenario: Scenario, wanted: bool) -> None:
        self.found: dict[int, dict[str, float]] = {}
        self._scenario = scenario
        self._wanted = wanted

    def evaluation(self, line: Line) -> None:
        if not self._wanted:
            return
        tasks = [self.run.tasks[row["agent"]] for row in line["rows"]]
        rows = [
            diagnose(task, self.run.params, self._scenario.seed)
            for task in tasks
            if isinstance(task, Reinforcement)
        ]
        if not rows:
            return
        self.found[line["round"]] = {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}


class _Table:
    """Collects the rows of one cell."""

    def __init__(self, arm: Arm, seed: int, outcomes: tuple[str, ...], last: int) -> None:
        self.rows: list[Measurement] = []
        self._arm, self._seed, self._outcomes, self._last = arm, seed, outcomes, last

    def add(self, policy: str, numbers: Numbers, *, m: int = 0, round_: int | None = None) -> None:
        """One row per number that is there and wanted; the counts of the run always are."""
        for outcome, value in numbers.items():
            if value is not None and (policy == "run" or not self._outcomes or outcome in self._outcomes):
                at = self._last if round_ is None else round_
                self.rows.append(
                    Measurement(
                        self._arm.name, self._seed, self._arm.config, at, policy, m, outcome, float(value)
                    )
                )


def _training(table: _Table, outcome: Outcome, diagnosed: Mapping[int, Numbers]) -> None:
    since, attacking = 0, attackers(outcome.scenario) if outcome.scenario else {}
    for line in outcome.evaluations:
        if line["kind"] != "evaluation" or not line["n"]:
            continue
        number = line["round"]
        numbers = {name: line[name] for name in SHARED}
        numbers |= diagnosed.get(number, {})
        numbers |= _updates([part for part in outcome.rounds if since < part["round"] <= number])
        table.add("shared", numbers, round_=number)
        honest = [row for row in line["rows"] if row["agent"] not in attacking]
        if attacking and honest:
            found = evaluation_summary(honest)
            table.add("honest", {name: found[name] for name in SHARED}, round_=number)
        since = number


def _protocols(table: _Table, scenario: Scenario, run: PlainRun) -> None:
    """Supervised users measured again after the last round, with every choice of ``adapt_from``."""
    if scenario.task.kind != "supervised":
        return
    for policy, adapt_from in PROTOCOLS.items():
        how = msgspec.structs.replace(scenario.onboarding, adapt_from=adapt_from)
        rows = [task.evaluate(run.params, scenario.seed, how) for task in run.tasks.values()]
        found = evaluation_summary(rows)
        table.add(policy, {name: found[name] for name in SHARED})


def _updates(lines: list[Line]) -> dict[str, float]:
    """What the updates of these rounds report, over agents and rounds."""
    reports = [metrics for line in lines for metrics in line["metrics"].values()]
    names = dict.fromkeys(name for report in reports for name in report if name != "trajectories")
    found = {name: [report[name] for report in reports if name in report] for name in names}
    return {
        name: statistics.median(values) if name == "curvature_ratio" else statistics.fmean(values)
        for name, values in found.items()
    }


def _held_out(table: _Table, scenario: Scenario, params: F8, tuning: Tuning | None) -> list[Onboarded]:
    """Measures the agents that never trained; returns what was sampled for it."""
    goals = parse_goals(scenario.onboarding.goals)
    if not goals:
        return []
    found = _onboard(scenario, goals, params, scenario.onboarding)
    for line in onboarding_summary([row for part in found for row in part.rows]):
        table.add(line["init"], {name: line[name] for name in HELD_OUT}, m=line["m_adapt"])
    if tuning is not None:
        found += _tuned(table, scenario, params, goals, tuning)
    return found


def _tuned(
    table: _Table, scenario: Scenario, params: F8, goals: tuple[int, ...], tuning: Tuning
) -> list[Onboarded]:
    """Chooses alpha per budget on the validation goals, then measures the held-out ones with it."""
    spent: list[Onboarded] = []
    tried: dict[float, dict[int, Any]] = {}
    budgets = tuple(m for m in scenario.onboarding.m_adapt if m)
    for alpha in tuning.step_sizes:
        found = _onboard(scenario, parse_goals(tuning.goals), params, _only_learned(scenario, alpha, budgets))
        tried[alpha] = {line["m_adapt"]: line["return"] for line in _lines(found)}
        spent += found
    best = {m: max(tuning.step_sizes, key=lambda alpha: tried[alpha][m]) for m in budgets}
    for alpha in sorted(
        set(best.values())
    ):  # all budgets each time: one pool, of which m-shot uses the first m
        found = _onboard(scenario, goals, params, _only_learned(scenario, alpha, (0, *budgets)))
        for line in _lines(found):
            if best.get(line["m_adapt"]) == alpha:
                table.add(
                    "tuned", {**{name: line[name] for name in HELD_OUT}, "alpha": alpha}, m=line["m_adapt"]
                )
        spent += found
    return spent


def _lines(found: list[Onboarded]) -> list[dict[str, Any]]:
    return onboarding_summary([row for part in found for row in part.rows])


def _only_learned(scenario: Scenario, alpha: float, budgets: tuple[int, ...]) -> Onboarding:
    return msgspec.structs.replace(
        scenario.onboarding, step_size=alpha, m_adapt=budgets, scratch=(), random=False, careful=False
    )


def _onboard(scenario: Scenario, goals: tuple[int, ...], params: F8, how: Onboarding) -> list[Onboarded]:
    planned = overrides_by_goal(scenario)
    learners = [make_learner(scenario, goal, planned.get(goal, Overrides())) for goal in goals]
    return [learner.onboard(params, scenario.seed, how, lambda _done: None) for learner in learners]


def _budgets(table: _Table, outcome: Outcome, run: PlainRun, spent: list[Onboarded]) -> None:
    """What the run consumed, counted while sampling."""
    train = outcome.trajectories
    evaluations = [
        row for line in outcome.evaluations for row in line["rows"] if line["kind"] == "evaluation"
    ]
    total = sum(train.values())
    table.add(
        "run",
        {
            "train_trajectories": total,
            "train_trajectories_per_agent": total / max(len(train), 1),
            "adapt_trajectories": sum(row["adapt_trajectories"] for row in evaluations)
            + sum(part.adapt_trajectories for part in spent),
            "eval_trajectories": sum(row["eval_trajectories"] for row in evaluations)
            + sum(part.eval_trajectories for part in spent),
            "env_steps": sum(task.env_steps for task in run.tasks.values())
            + sum(row["env_steps"] for row in evaluations)
            + sum(part.env_steps for part in spent),
            "parameter_bytes": _parameter_bytes(outcome, run),
        },
    )


def _parameter_bytes(outcome: Outcome, run: PlainRun) -> int:
    """One float64 vector down per agent asked, one up per update folded; with a correction two down."""
    vector = BYTES_PER_PARAMETER * run.params.size
    down = 1 if run.scenario.algorithm.correction == "none" else 2
    return sum(vector * (down * len(line["cohort"]) + len(line["contributors"])) for line in outcome.rounds)
