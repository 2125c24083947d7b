"""A run's outcome as tables for people: training, adaptation budgets, expectations."""

from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from edge_fed.config import overrides_by_goal
from edge_fed.envs.gymnasium import bootstraps
from edge_fed.federated.attacks import attackers, described
from edge_fed.federated.ending import never_trained
from edge_fed.meta.curvature import BIASED
from edge_fed.program import accountant
from edge_fed.summaries import onboarding_summary
from scenarios.outcome import Outcome
from scenarios.timeline import Scenario

KINDS = {"learned": "learned", "careful": "careful", "scratch": "from scratch", "random": "untrained"}
SHOWN_AGENTS = 12
MORE_UPDATES = 'see "missing" in metrics.jsonl: more time in federation.round_deadline_s, or less work'
UNFOLDED = 100_000
"""Columns where no terminal has any: a line of a pipe or a file is as long as its table."""


def output() -> Console:
    """Where a command prints: tables fold at the width of a terminal, and nowhere else."""
    console = Console()
    return console if console.file.isatty() else Console(width=UNFOLDED)


def print_report(outcome: Outcome, console: Console) -> None:
    """Prints what a person wants to know after a run."""
    for table in (_training(outcome), _onboarding(outcome), _expectations(outcome)):
        if table is not None:
            console.print(table)
    for line in summary_lines(outcome):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def summary_lines(outcome: Outcome) -> list[str]:
    """The last lines: how it ended, where it lies, what to do next."""
    name = outcome.scenario.name if outcome.scenario else "the scenario"
    lines = []
    if outcome.failure:
        lines.append(f"{name} failed: {outcome.failure.message}")
        if outcome.failure.hint:
            lines.append(f"next: {outcome.failure.hint}")
    else:
        unmet = sum(not verdict.met for verdict in outcome.verdicts)
        met = f", {unmet} of {len(outcome.verdicts)} expectations unmet" if unmet else ""
        lines.append(f"{name} is done ({outcome.runtime}, {outcome.wall_s:.1f} s){met}")
        folded = sum(line["outcome"] == "folded" for line in outcome.rounds)
        if why := never_trained(len(outcome.rounds), folded):
            lines += [f"nothing was trained: {why}", f"next: {MORE_UPDATES}"]
    if outcome.run_dir:
        lines.append(
            f"run folder: {outcome.run_dir}; check it with: python -m scenarios verify {outcome.run_dir}"
        )
    return lines


def _training(outcome: Outcome) -> Table | None:
    if not outcome.rounds and not outcome.evaluated:
        return None
    table = _table("Training", ("", "value"))
    evaluated, scenario = outcome.evaluated, outcome.scenario
    if scenario:
        table.add_row("variant", _label(outcome))
    table.add_row("rounds", f"{len(outcome.rounds)}")
    for name, words in (
        ("expected_return", "return before adaptation"),
        ("meta_objective", "return after one step"),
        ("success", f"{_success(outcome)} before adaptation"),
        ("success_adapted", f"{_success(outcome)} after one step"),
    ):
        if evaluated.get(name) is not None:
            how = f" ({evaluated['meta_objective_kind']}, mean of {evaluated['n']} agents)"
            table.add_row(words, f"{evaluated[name]:.4f}{how if name == 'meta_objective' else ''}")
    if scenario and scenario.privacy.noisy and not evaluated:
        table.add_row("no returns", "private agents keep their measurements; use --runtime plain")
    for row in _byzantine(outcome) if scenario else ():
        table.add_row(*row)
    table.add_row(_unit(outcome), _trajectories(outcome))
    if outcome.privacy:
        table.add_row("private noise", accountant.line(outcome.privacy))
    if outcome.runtime != "plain":
        table.add_row(
            "bytes", f"{outcome.bytes_sent:,} sent, {outcome.bytes_received:,} received by the server"
        )
    table.add_row("parameters", f"sha256 {(outcome.params_sha256 or 'none')[:16]}")
    return table


def _byzantine(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The rule if it is not the mean, who attacked, what the others reached, who is in quarantine."""
    assert outcome.scenario is not None
    settings, honest = outcome.scenario.algorithm, outcome.honest
    if settings.rule != "mean":
        yield "aggregation", settings.rule
    for agent, attack in attackers(outcome.scenario).items():
        yield f"agent {agent} attacks", described(attack)
    if honest:
        words = f"{honest['meta_objective']:.4f} (mean of the {honest['n']} agents that do not attack)"
        yield "honest return after one step", words
    away = sorted({agent for line in outcome.rounds for agent in line.get("quarantined", ())})
    if away:
        yield "in quarantine", ", ".join(map(str, away))


def _supervised(outcome: Outcome) -> bool:
    return outcome.scenario is not None and outcome.scenario.task.kind == "supervised"


def _unit(outcome: Outcome) -> str:
    return "samples" if _supervised(outcome) else "trajectories"


def _success(outcome: Outcome) -> str:
    return "accuracy" if _supervised(outcome) else "success"


def _label(outcome: Outcome) -> str:
    """What the run did, e.g. ``exact/causal/value/k=0.5``."""
    assert outcome.scenario is not None
    algorithm = outcome.scenario.algorithm
    parts: list[str] = [algorithm.variant]
    if algorithm.variant == "exact":
        biased = " (biased)" if algorithm.curvature in BIASED else ""
        parts.append(algorithm.curvature + biased)
        if algorithm.curvature_batch == "inner":
            parts.append("m_h=m_in")
    if not _supervised(outcome):
        parts.append(algorithm.baseline)
        parts += _bootstrap(outcome.scenario)
    if algorithm.variant in ("exact", "first_order") and algorithm.inner_gradient == "recursive":
        parts.append(f"recursive={algorithm.inner_momentum:g}")
    if algorithm.variant in ("exact", "sg_mrl") and algorithm.guard != "off":
        parts.append(f"k={algorithm.guard:g}")
    if algorithm.correction != "none":
        parts.append(algorithm.correction)
    return "/".join(parts)


def _bootstrap(scenario: Scenario) -> Iterator[str]:
    """Whether agents train with it: all of them, or those whose table says so."""
    found = [bootstraps(scenario.environment, own.args) for own in overrides_by_goal(scenario).values()]
    if any(found):
        yield "bootstrap" if all(found) else f"bootstrap ({sum(found)} of {len(found)} agents)"


def _trajectories(outcome: Outcome) -> str:
    each = outcome.trajectories
    if not each:
        return "0"
    total, counts = sum(each.values()), set(each.values())
    if len(counts) == 1:
        return f"{total:,} ({counts.pop():,} by each of {len(each)} agents)"
    if len(each) > SHOWN_AGENTS:
        return f"{total:,} ({min(each.values()):,} to {max(each.values()):,} by an agent)"
    return f"{total:,} (" + ", ".join(f"{agent}: {count:,}" for agent, count in each.items()) + ")"


def _onboarding(outcome: Outcome) -> Table | None:
    rows = outcome.onboarding
    if not rows:
        return None
    goals = sorted({row["goal"] for row in rows})
    title = f"Onboarded agents (goals {', '.join(map(str, goals[:SHOWN_AGENTS]))}), one adaptation step"
    heads = ("policy", _unit(outcome), "return", _success(outcome), "worst goal", "hurt")
    table = _table(title, heads)
    for line in onboarding_summary(rows):
        success = "-" if line["success"] is None else f"{100 * line['success']:.0f} %"
        hurt = "" if line["fraction_hurt"] is None else f"{100 * line['fraction_hurt']:.0f} %"
        worst = f"{line['worst_return']:.2f} (goal {line['worst_goal']})"
        table.add_row(
            KINDS[line["init"]], str(line["m_adapt"]), f"{line['return']:.2f}", success, worst, hurt
        )
    return table


def _expectations(outcome: Outcome) -> Table | None:
    if not outcome.verdicts:
        return None
    table = _table("Expectations", ("metric", "expected", "found", ""))
    for verdict in outcome.verdicts:
        found = "not measured" if verdict.found is None else f"{verdict.found:.4g}"
        met = "met" if verdict.met else "UNMET"
        table.add_row(verdict.metric, f"{verdict.comparison} {verdict.value:g}", found, met)
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    words = Text.from_markup(title, style="table.title", overflow="ignore")
    words.no_wrap = True  # rich would fold it at the width of its table
    table = Table(title=words, title_justify="left", box=box.SIMPLE_HEAD, show_header=any(columns[:1]))
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table for lists."""
    table = _table(title, columns)
    for row in rows:
        table.add_row(*row)
    return table
