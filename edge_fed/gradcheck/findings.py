"""What a check found, and the deviations that checks measure."""

from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_fed.meta.guard import norm
from edge_fed.params import F8

ERRORS = 4.0
"""Standard errors that a sampled mean may be off."""
COUNT_ERRORS = 6.0
"""Standard errors that the worst of many counts may be off."""


MOST_BLIND = 1.0
"""Relative error that a check must be able to see, or it is none: at 1 nothing is told from zero."""


class Check(msgspec.Struct, frozen=True):
    """One finding.

    Attributes:
        name: What was checked.
        measured: The deviation.
        limit: The check fails above it, and if ``measured`` is NaN.
        unit: Of both.
        proves: What it proves if it passes.
        detail: More for people; may be empty.
        blind: Relative error that this check could not have seen; None: it sees every one, or has no scale.
    """

    name: str
    measured: float
    limit: float
    unit: str
    proves: str
    detail: str = ""
    blind: float | None = None

    @property
    def result(self) -> Literal["PASS", "FAIL", "BLIND"]:
        """``BLIND``: within the limit, but so would be a value of twice the size or of the other sign."""
        if not self.measured <= self.limit:  # nor is NaN
            return "FAIL"
        return "PASS" if self.blind is None or self.blind <= MOST_BLIND else "BLIND"

    @property
    def passed(self) -> bool:
        """Whether the deviation is within its limit, and the check could have seen a large one."""
        return self.result == "PASS"


class Findings(msgspec.Struct, frozen=True):
    """All checks of a task, and what they leave open.

    Attributes:
        checks: In the order in which they were made.
        not_proved: What nobody should conclude from them.
    """

    checks: tuple[Check, ...]
    not_proved: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)


def sampled_mean(name: str, estimates: list[F8], expected: F8, proves: str) -> Check:
    """The mean of estimates ``[d]`` against ``expected`` ``[d]``, whole and along ``expected``: the worse.

    The noise of the whole vector hides what its one component along ``expected`` may show.
    """
    found = np.array(estimates)
    error, length = found.mean(axis=0) - expected, norm(expected)
    unit = expected / (length or 1.0)
    along = float(standard_error(found @ unit))
    whole = ratio(norm(error), norm(standard_error(found)))
    measured = float(np.maximum(whole, ratio(abs(float(error @ unit)), along)))  # NaN of either counts
    blind = ERRORS * along / length if length else float("inf")
    return Check(name, measured, ERRORS, "s.e.", proves, blind=blind)


def standard_error(values: F8) -> F8:
    """Of the mean over the first axis."""
    error: F8 = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return error


def misfit(counts: NDArray[Any], probabilities: F8) -> float:
    """The worst of counts ``[n, k]`` drawn row by row from ``probabilities`` ``[n, k]``, in standard errors.

    One count is added to the variance n p (1 - p), because rare events have longer tails than a normal.
    Infinite if something occurred that has probability 0.
    """
    n = counts.sum(axis=1, keepdims=True)
    off = abs(counts - n * probabilities) / np.sqrt(n * probabilities * (1 - probabilities) + 1.0)
    return float("inf") if counts[probabilities == 0].any() else float(off.max())


def relative(found: F8, expected: F8) -> float:
    """Relative error in the Euclidean norm."""
    return ratio(float(np.linalg.norm(found - expected)), float(np.linalg.norm(expected)))


def ratio(error: float, scale: float) -> float:
    """``error`` in units of ``scale``: 0 if there is none, infinite if only ``scale`` is 0."""
    if error == 0.0:
        return 0.0
    return error / scale if scale else float("inf")
