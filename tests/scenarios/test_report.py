"""What a person reads after a run, and the picture."""

import io
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from edge_fed.config import Agents
from edge_fed.profiles import unavailable
from edge_fed.program.config_file import load
from edge_fed.program.exit_codes import ProgramError
from scenarios.outcome import Failure, Outcome
from scenarios.picture import draw, require_plot
from scenarios.plain import run_plain
from scenarios.progress import JsonLines, Lines, open_progress, round_text
from scenarios.report import output, print_report, summary_lines, table_of
from scenarios.script import check, resolve
from scenarios.timeline import Scenario
from scenarios.watching import Silent
from tests.edge_fed.gym.toy_envs import MODULE
from tests.edge_fed.supervised.cases import ONBOARDERS, TEXT
from tests.scenarios.tiny import ONBOARDING, tiny

EXPECT = "\n[[expect]]\nmetric = 'rounds'\ncomparison = '<'\nvalue = 3\n"


@pytest.fixture(scope="module", autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opens matplotlib's fonts, which stay open as long as the process."""
    draw(run_plain(tiny(ONBOARDING), Silent()), tmp_path_factory.mktemp("fonts") / "warm.png")


def text_of(outcome: Outcome) -> str:
    """The report as a terminal of 120 columns shows it."""
    out = io.StringIO()
    print_report(outcome, Console(file=out, width=120))
    return out.getvalue()


def lines_of(text: str) -> list[str]:
    """Its lines without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


def test_what_is_piped_is_not_folded(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    """A row is a line, as is a title wider than its table; colours and COLUMNS change nothing."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    cells = [f"cell {number} " + "word " * 30 + "end" for number in range(4)]
    output().print(table_of("title " * 30 + "end", ("a", "b"), [cells[:2], cells[2:]]))
    lines = lines_of(capsys.readouterr().out)
    assert [line for line in lines if "word" in line or "title" in line] == [
        line for line in lines if line.rstrip().endswith("end")
    ]
    assert sum("end" in line for line in lines) == 3


def test_a_terminal_has_tables_of_its_own_width(monkeypatch: Any) -> None:
    """Nothing reaches beyond its edge but a title."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    output().print(table_of("title", ("a", "b"), [("word " * 30, "x")]))
    assert 30 < max(map(len, lines_of(terminal.getvalue()))) <= 40


def test_the_report_names_what_was_done_measured_and_missed() -> None:
    """Variant, budgets, every kind of policy, and the expectation that is unmet."""
    scenario = tiny(
        ONBOARDING + EXPECT, "algorithm.variant=exact", "algorithm.curvature=causal", "algorithm.guard=0.5"
    )
    text = text_of(run_plain(scenario, Silent()))
    for part in (
        "exact/causal/none/k=0.5",
        "(dp, mean of 4 agents)",
        "by each of 4 agents",
        "learned",
        "from scratch",
        "untrained",
        "UNMET",
        "tiny is done (plain",
        "1 of 1 expectations unmet",
    ):
        assert part in text


def test_the_report_names_rule_attackers_quarantine_and_what_the_honest_reached() -> None:
    """Means over all agents would hide what an attack did to the others."""
    attack = 'agents=[{goals="0-2"},{goals="3",attack={kind="noise",scale=1000}}]'
    outcome = run_plain(tiny("", attack, "algorithm.rule=median", "federation.max_update_norm=20"), Silent())
    text = text_of(outcome)
    rows = [row["meta_objective"] for row in outcome.evaluated["rows"] if row["agent"] < 3]
    for part in (
        "median",
        "agent 3 attacks",
        "noise, scale 1000",
        f"{sum(rows) / 3:.4f} (mean of the 3 agents that do not attack)",
        "in quarantine",
    ):
        assert part in text
    assert outcome.values()["honest_meta_objective"] == sum(rows) / 3
    plain = text_of(run_plain(tiny(), Silent()))
    assert not any(word in plain for word in ("attack", "quarantine", "aggregation"))


def test_a_private_run_says_why_it_has_no_returns() -> None:
    """Over a network private agents keep their measurements; the plain loop, and other runs, show them."""
    private = "\n[privacy]\nclip_norm = 0.5\nnoise_multiplier = 2\n"
    line = "private agents keep their measurements; use --runtime plain"
    for tail, evaluations, said in ((private, [], True), ("", [], False)):
        outcome = msgspec.structs.replace(run_plain(tiny(tail), Silent()), evaluations=evaluations)
        assert (line in text_of(outcome)) == said
    assert line not in text_of(run_plain(tiny(private), Silent()))


def test_a_failed_run_says_what_to_do_next() -> None:
    """Cause, next step, and where the run lies."""
    failure = Failure(3, "quorum", "too few agents", "start more")
    text = text_of(Outcome(scenario=tiny(), runtime="processes", run_dir="runs/x", failure=failure))
    assert "tiny failed: too few agents" in text
    assert "next: start more" in text
    assert "verify runs/x" in text


@pytest.mark.parametrize("tail", [ONBOARDING, ""])
def test_the_picture_is_written(tmp_path: Path, tail: str) -> None:
    """A PNG file, with and without onboarders; its folder is made."""
    outcome = run_plain(tiny(tail), Silent())
    draw(outcome, tmp_path / "docs" / "result.png")
    assert (tmp_path / "docs" / "result.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_a_short_message(tmp_path: Path) -> None:
    """A folder that is a file."""
    (tmp_path / "docs").write_text("")
    with pytest.raises(ProgramError, match="cannot write the picture"):
        draw(run_plain(tiny(), Silent()), tmp_path / "docs" / "result.png")


@pytest.mark.parametrize(("name", "problem"), [("x.xyz", "ending"), ("x", "ending"), (".", "a folder")])
def test_what_is_no_picture_is_refused_before_the_run(tmp_path: Path, name: str, problem: str) -> None:
    """The library would find out after the run, or write beside the folder."""
    with pytest.raises(ProgramError, match=problem):
        require_plot(tmp_path / name)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody installs all of it to run a scenario."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ProgramError) as caught:
        require_plot(Path("x.png"))
    assert "edge-fed[plot]" in caught.value.hint


def test_progress_off_a_terminal_is_lines_with_the_time_left() -> None:
    """First round, last round and news each have their line; fast rounds in between have none."""
    out = io.StringIO()
    with open_progress(tiny(), "text", out) as watch:
        assert type(watch) is Lines
        run_plain(tiny(ONBOARDING), watch)
    lines = out.getvalue().splitlines()
    assert sum("round 1/6 folded, 4 of 4 updates" in line for line in lines) == 1
    assert sum("round 6/6" in line for line in lines) == 1
    assert sum("goal 8 onboarded" in line for line in lines) == 1
    assert sum("evaluation after round" in line for line in lines) == 2


def test_a_line_about_a_round_names_who_could_not_be_asked() -> None:
    """As drawn from the seed; the first twelve of many by name."""
    away = "availability = 0.5\n"
    line = {
        "round": 3,
        "outcome": "folded",
        "contributors": [1],
        "cohort": [1],
        "params_sha256": "abcdef012345",
    }
    few = tiny(away)
    names = [str(agent) for agent in unavailable(few, 3, range(4))]
    assert 0 < len(names) < 4
    assert round_text({**line, "eligible": range(4)}, few) == (
        f"round 3/6 folded, 1 of 1 updates, unavailable: {', '.join(names)}, params abcdef01"
    )
    none = msgspec.structs.replace(few, agents=(Agents(goals="0-39", availability=1e-9),))
    assert "unavailable: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 28 more, params" in round_text(
        {**line, "eligible": range(40)}, none
    )
    assert "unavailable" not in round_text({**line, "eligible": range(4)}, tiny())


def test_progress_as_json_is_one_object_per_line() -> None:
    """For machines."""
    out = io.StringIO()
    with open_progress(tiny(), "json", out) as watch:
        assert type(watch) is JsonLines
        watch.note("warning", "x")
    assert '"level": "warning", "event": "x"' in out.getvalue()


def test_progress_on_a_terminal_is_a_bar() -> None:
    """News stand above the bar; its end leaves the terminal alone."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with open_progress(tiny(), "text", out) as watch:
        run_plain(tiny(), watch)
    assert "evaluation after round 6" in out.getvalue()
    assert "6/6" in out.getvalue()


def test_a_biased_estimator_is_labelled_in_the_table() -> None:
    """Nobody takes lvc for an unbiased estimate of the curvature."""
    scenario = tiny("", "algorithm.variant=exact", "algorithm.curvature=lvc", "algorithm.rounds=1")
    assert "exact/lvc (biased)/none" in text_of(run_plain(scenario, Silent()))


@pytest.mark.parametrize(
    ("sets", "label"),
    [
        (("variant=sg_mrl", "guard=0.5"), "sg_mrl/none/k=0.5"),
        (("variant=first_order", "inner_gradient=recursive"), "first_order/none/recursive=0.5"),
        (("variant=fedavg_pg", "inner_gradient=recursive", "guard=0.5"), "fedavg_pg/none "),
        (("correction=control_variate", "participation=0.5"), "first_order/none/control_variate "),
    ],
)
def test_the_label_says_what_the_variant_used(sets: tuple[str, ...], label: str) -> None:
    """Guard and inner gradient where they count, and only there; the correction of any variant."""
    scenario = tiny("", "algorithm.rounds=1", *(f"algorithm.{one}" for one in sets))
    assert label in text_of(run_plain(scenario, Silent()))


def test_the_label_says_that_training_bootstraps() -> None:
    """Its objective is another one; tables show that beside the baseline."""
    args = f'environment.args={{ id = "{MODULE}:Corridor", goals = 4, held_out = 0, bootstrap = "value" }}'
    scenario = tiny("", "algorithm.rounds=1", "environment.family=gymnasium", args)
    assert "first_order/none/bootstrap " in text_of(run_plain(scenario, Silent()))


@pytest.mark.parametrize(
    ("own", "label"),
    [
        (({}, {}), "first_order/none "),
        (({"bootstrap": "value"}, {}), "first_order/none/bootstrap (2 of 3 agents) "),
        (({"bootstrap": "value"}, {"bootstrap": "value"}), "first_order/none/bootstrap "),
    ],
)
def test_the_label_says_which_agents_bootstrap(own: tuple[dict[str, Any], ...], label: str) -> None:
    """By arguments of their own, where the run has none."""
    args = f'environment.args={{ id = "{MODULE}:Corridor", goals = 4, held_out = 0 }}'
    scenario = tiny("", "algorithm.rounds=1", "environment.family=gymnasium", args)
    tables = (Agents(goals="0-1", args=own[0]), Agents(goals="2", args=own[1]))
    assert label in text_of(run_plain(msgspec.structs.replace(scenario, agents=tables), Silent()))


def test_a_run_in_which_no_round_counted_says_so() -> None:
    """In its last lines, with what to do; a run that trained in one round, or has none, says nothing."""
    folded = run_plain(tiny("", "algorithm.rounds=2"), Silent())
    first, second = folded.rounds
    skipped = [{**line, "outcome": "skipped"} for line in folded.rounds]
    for rounds, words in (
        (skipped, "none of the 2 rounds had enough updates, and the parameters are the initial ones"),
        (skipped[:1], "the only round never had enough updates"),
        ([first, skipped[1]], ""),
        ((), ""),
    ):
        lines = summary_lines(msgspec.structs.replace(folded, rounds=rounds))
        assert any(f"nothing was trained: {words}" in line for line in lines) is bool(words)
        assert any(line.startswith("next: see") for line in lines) is bool(words)
    assert second["outcome"] == "folded" and summary_lines(folded)[0].startswith("tiny is done")


def test_the_report_of_a_supervised_run_speaks_of_samples_and_accuracy() -> None:
    """Nothing there is a trajectory, and a baseline is no part of its label."""
    scenario = resolve(load(TEXT + ONBOARDERS, Scenario, check, ("algorithm.rounds=1",)))
    text = text_of(run_plain(scenario, Silent()))
    for part in ("exact/finite_difference ", "accuracy after one step", "samples"):
        assert part in text
    assert "trajectories" not in text
    assert "exact/finite_difference/none" not in text
