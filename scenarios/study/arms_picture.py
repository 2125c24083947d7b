"""The picture of a study: one row per arm, every seed as a point, the mean with its 95 % interval."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.exit_codes import ExitCode, ProgramError
from scenarios.study.figure import (
    BLUE,
    METADATA,
    Values,
    missing_in_words,
    new_figure,
    require_matplotlib,
    write,
)
from scenarios.study.results import Results
from scenarios.study.statistics import Summary, number, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_INCHES = 7.6
ROW_INCHES = 0.42
FRAME_INCHES = 1.5  # title, axis and note


class Shown(msgspec.Struct, frozen=True):
    """Which number of the table is drawn, see `scenarios.study.results`."""

    outcome: str = "meta_objective"
    policy: str = "shared"
    m: int = 0

    @property
    def label(self) -> str:
        """For people, e.g. ``learned return, m = 20``; ``shared`` goes without saying."""
        words = self.outcome if self.policy == "shared" else f"{self.policy} {self.outcome}"
        return words.replace("_", " ") + (f", m = {self.m}" if self.m else "")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags of a picture."""
    unset = Shown()
    command.add_argument("--picture", type=Path, metavar="FILE",
                         help="draw the arms into a .png or .svg; needs the extra plot")  # fmt: skip
    command.add_argument("--outcome", default=unset.outcome, metavar="NAME",
                         help=f"of table and picture; default {unset.outcome}")  # fmt: skip
    command.add_argument("--policy", default=unset.policy, metavar="NAME",
                         help="of table and picture; default shared; others as compare has them")  # fmt: skip
    command.add_argument("--m", type=int, default=unset.m, metavar="N",
                         help="of table and picture: trajectories of the policy; default 0")  # fmt: skip


def check(options: argparse.Namespace, kept: Sequence[str]) -> None:
    """Says before a run what the picture after it could not show.

    Args:
        options: The flags.
        kept: Outcomes that the study keeps in its table; none: all.

    Raises:
        ConfigError: The outcome will not be there.
        ProgramError: matplotlib is not installed, or the file's ending is none of the two.
    """
    require_matplotlib()
    path: Path = options.picture
    if path.is_dir() or path.suffix.lower() not in METADATA:
        what = "a folder" if path.is_dir() else "no picture by its ending"
        raise ProgramError(ExitCode.USAGE, f"--picture {path} is {what}", "name a .png or .svg file")
    if kept and options.policy != "run" and options.outcome not in kept:
        fault = Fault(
            "--outcome", f"the study does not keep {options.outcome!r}", nearest(options.outcome, kept)
        )
        raise ConfigError([fault], "command line")


def write_picture(table: Results, title: str, options: argparse.Namespace) -> None:
    """Draws what the flags name.

    Raises:
        ConfigError: No arm has that number, or a value is not finite.
        ProgramError: The file cannot be written.
    """
    shown = Shown(options.outcome, options.policy, options.m)
    write(lambda: draw_arms(table, title, shown), [options.picture], "choose another --picture")


def draw_arms(table: Results, title: str, shown: Shown) -> "Figure":
    """Draws the newest measurement of every arm, in the order of the table.

    Args:
        table: Of the study.
        title: Above it; what is shown and the training round are added.
        shown: Which number.

    Raises:
        ConfigError: No arm has this number (the message names what there is), or a value is not finite.
    """
    found = {arm: _newest(table, arm, shown) for arm in table.arms if _has(table, arm, shown)}
    if not found:
        _newest(table, table.arms[0], shown)  # raises: names what there is
    rounds = " and ".join(str(number) for number in sorted({number for number, _ in found.values()}))
    note = "points: seeds; bar: mean, 95 % interval (BCa; percentile where undefined; t below six seeds)"
    figure = new_figure(
        f"{title}: {shown.label}, round {rounds}",
        note + missing_in_words([arm for arm in table.arms if arm not in found]),
        (WIDTH_INCHES, FRAME_INCHES + ROW_INCHES * len(found)),
    )
    axes = figure.subplots()
    for row, (arm, (_, values)) in enumerate(found.items()):
        draw_row(axes, row, values, summary_of(table, arm, values))
    axes.set_yticks(range(len(found)), [arm_label(arm) for arm in found], parse_math=False)
    axes.set_ylim(len(found) - 0.5, -0.5)  # the first arm on top
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(shown.label)
    return figure


def arm_label(name: str) -> str:
    """``exact/inner_step_size=2`` over two lines, the second ``inner step size = 2``."""
    head, *settings = name.split("/")
    pairs = [setting.partition("=") for setting in settings]
    words = [f"{key.replace('_', ' ')} = {value}" for key, _, value in pairs]
    return "\n".join([head.replace("_", "-"), *([", ".join(words)] if words else [])])


def _has(table: Results, arm: str, shown: Shown) -> bool:
    number = (arm, shown.outcome, shown.policy, shown.m)
    return any((row.arm, row.outcome, row.policy, row.m) == number for row in table.rows)


def _newest(table: Results, arm: str, shown: Shown) -> tuple[int, Values]:
    """The last measured training round, and its values."""
    curve = table.curve(arm, shown.outcome, shown.policy, shown.m)
    return max(curve.items())


def summary_of(table: Results, arm: str, values: Values) -> Summary | None:
    """None: of one seed there is no interval.

    Raises:
        ConfigError: A value is not finite.
    """
    if len(values) == 1:
        return None
    try:
        return summarize([*values.values()])
    except ConfigError as error:
        raise ConfigError(error.faults, f"{table.source}:{arm}") from None


def draw_row(axes: "Axes", row: int, values: Values, summary: Summary | None) -> None:
    """Points spread over the height of the row, so that equal ones are seen; the figures stand beside it."""
    aside = row + 0.22 * np.sin(2.4 * np.arange(len(values)))
    axes.plot([*values.values()], aside, "o", color=BLUE, alpha=0.45, markersize=3.5, markeredgewidth=0)
    words = "n = 1"
    if summary is not None:
        mean, low, high = summary.mean, summary.interval.low, summary.interval.high
        axes.plot([low, high], [row, row], "|-", color="black", markersize=8, markeredgewidth=1.6, zorder=4)
        axes.plot([mean], [row], "D", color="black", zorder=5)
        words = f"{number(mean)} [{number(low)}, {number(high)}], n = {summary.n}"
    beside = ("axes fraction", "data")
    axes.annotate(words, (1.01, row), xycoords=beside, va="center", fontsize=8, annotation_clip=False)
