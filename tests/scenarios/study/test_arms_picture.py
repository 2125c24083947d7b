"""The picture of a study's arms shows the numbers of the table, and is the same file twice."""

import argparse
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ProgramError
from scenarios.study.arms_picture import Shown, add_arguments, arm_label, check, draw_arms, write_picture
from scenarios.study.results import Measurement, Results
from scenarios.study.statistics import summarize

pytest.importorskip("matplotlib")

ARMS = {"guarded": [2.1, 2.3, 1.9, 2.0, 2.2], "first_order/inner_step_size=0.5": [1.0, 1.5, 1.1, 1.2]}


def table(arms: Mapping[str, Iterable[float]], **other: Any) -> Results:
    """One outcome of several arms at round 150, beside another value at an earlier round."""
    at = {"policy": "shared", "m": 0, "outcome": "meta_objective", **other}
    rows = [
        Measurement(arm=arm, seed=seed, config="c", round=round_, value=value + (150 - round_), **at)
        for arm, values in arms.items()
        for round_ in (75, 150)
        for seed, value in enumerate(values)
    ]
    return Results("small.csv", tuple(rows))


@pytest.fixture(scope="module", autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Opens matplotlib's fonts, which stay open as long as the process."""
    write_picture(table(ARMS), "small", flags("--picture", str(tmp_path_factory.mktemp("fonts") / "x.png")))


def flags(*arguments: str) -> argparse.Namespace:
    """The picture's flags as a person types them."""
    command = argparse.ArgumentParser()
    add_arguments(command)
    return command.parse_args(arguments)


def lines(figure: Any, marker: str) -> list[Any]:
    """Everything that is drawn with this marker, from top to bottom."""
    (axes,) = figure.axes
    return [line for line in axes.get_lines() if line.get_marker() == marker]


def test_every_seed_is_a_point_and_the_interval_that_of_the_statistics() -> None:
    """At the last round, one row per arm, the first on top; mean and interval stand beside it in figures."""
    figure = draw_arms(table(ARMS), "small", Shown())
    (axes,) = figure.axes
    found = [summarize(values) for values in ARMS.values()]
    assert [list(line.get_xdata()) for line in lines(figure, "o")] == list(ARMS.values())
    assert [list(line.get_xdata()) for line in lines(figure, "D")] == [[one.mean] for one in found]
    bars = [tuple(line.get_xdata()) for line in lines(figure, "|")]
    assert bars == [(one.interval.low, one.interval.high) for one in found]
    for row, line in enumerate(lines(figure, "o")):
        assert all(abs(y - row) < 0.5 for y in line.get_ydata())
        assert len(set(line.get_ydata())) == len(line.get_ydata())
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["guarded", "first-order\ninner step size = 0.5"]
    low, high = (f"{bound:.3f}" for bound in bars[0])
    assert axes.texts[0].get_text() == f"2.100 [{low}, {high}], n = 5"
    assert figure.get_suptitle() == "small: meta objective, round 150"


@pytest.mark.parametrize("value", [0.1, 1.0, 0.7])
def test_equal_values_and_a_single_seed_are_drawn_too(value: float) -> None:
    """Of equal values the interval is the value; of one seed there is none, and n says so."""
    figure = draw_arms(table({"same": [value] * 7, "one": [2.0]}), "small", Shown())
    assert [list(line.get_xdata()) for line in lines(figure, "|")] == [pytest.approx([value, value])]
    assert [len(line.get_xdata()) for line in lines(figure, "o")] == [7, 1]
    assert figure.axes[0].texts[1].get_text() == "n = 1"


def test_another_number_of_the_table_can_be_shown() -> None:
    """By outcome, policy and m; an arm that has none is named below, not drawn."""
    held_out = table({"guarded": [0.5, 0.75]}, policy="learned", m=20, outcome="return")
    both = Results("small.csv", (*table(ARMS).rows, *held_out.rows))
    figure = draw_arms(both, "small", Shown("return", "learned", 20))
    assert [list(line.get_xdata()) for line in lines(figure, "o")] == [[0.5, 0.75]]
    assert figure.get_suptitle() == "small: learned return, m = 20, round 150"
    assert figure.get_supxlabel().endswith("no results yet: first_order/inner_step_size=0.5")


def test_a_number_that_no_arm_has_is_refused_with_those_that_are_there() -> None:
    """Nothing is drawn from nothing."""
    with pytest.raises(ConfigError, match=r"no shared/return/0 .it has shared/meta_objective/0"):
        draw_arms(table(ARMS), "small", Shown("return"))


def test_a_value_that_is_not_finite_is_refused_by_its_arm() -> None:
    """A seed is never left out."""
    with pytest.raises(ConfigError, match=r"small\.csv:bad.*1 of 3 values are not finite"):
        draw_arms(table({"good": [1.0, 2.0], "bad": [1.0, math.nan, 2.0]}), "small", Shown())


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("first_order-15-15", "first-order-15-15"),
        ("exact/hessian_batch=10", "exact\nhessian batch = 10"),
        ("a/inner_step_size=2/outer_step_size=0.3", "a\ninner step size = 2, outer step size = 0.3"),
        ("a/family=grid_world", "a\nfamily = grid_world"),
    ],
)
def test_arms_are_labelled_in_words(name: str, label: str) -> None:
    """Settings of a grid stand on their own line; values are left as they are."""
    assert arm_label(name) == label


@pytest.mark.parametrize(("ending", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_equal_tables_give_equal_files(ending: str, head: bytes, tmp_path: Path) -> None:
    """Its folder is made; what is written holds no date."""
    paths = [tmp_path / part / f"arms.{ending}" for part in "ab"]
    for path in paths:
        write_picture(table(ARMS), "small", flags("--picture", str(path)))
    first, second = (path.read_bytes() for path in paths)
    assert first == second and first.startswith(head) and b"<dc:date>" not in first


def test_what_cannot_be_drawn_is_refused_before_the_run(tmp_path: Path) -> None:
    """Another ending, a folder, an outcome that the study does not keep; counts it always keeps."""
    for name in ("arms.pdf", "arms", str(tmp_path)):
        with pytest.raises(ProgramError, match=r"is (no picture|a folder)"):
            check(flags("--picture", name), ())
    with pytest.raises(ConfigError, match=r"does not keep 'meta_objective' \(known: success\)"):
        check(flags("--picture", "x.png"), ("success",))
    check(flags("--picture", "x.SVG", "--outcome", "success"), ("success",))
    check(flags("--picture", "x.png", "--outcome", "env_steps", "--policy", "run"), ("success",))


def test_a_picture_that_cannot_be_written_names_the_flag(tmp_path: Path) -> None:
    """A folder that is a file."""
    (tmp_path / "docs").write_text("")
    with pytest.raises(ProgramError) as caught:
        write_picture(table(ARMS), "small", flags("--picture", str(tmp_path / "docs" / "x.png")))
    assert caught.value.hint == "choose another --picture"
