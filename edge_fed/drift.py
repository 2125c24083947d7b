"""A drift alarm: a one-sided CUSUM of standardised episode returns (Page 1954).

    z_t = (r_t - mean) / sd,    S_t = max(0, S_{t-1} - z_t - k),    alarm as soon as S_t > h

mean and sd are those of a reference, n returns of the same policy. k is half the fall, in sd, that is to be
found soonest. h is the least at which S takes `run_length` episodes or more, on average, to reach it without
a drift: the run length follows from the Markov chain of Brook and Evans (1972), fed with the reference's own
returns, because returns are neither normal nor symmetric. A reference is an estimate: h is chosen as if the
true mean were `CAUTION` standard errors below it (guaranteed conditional performance, Gandy and Kvaloy 2013).

Measured with 400 references of 100 episodes each, a stated run length of 2,000 and a fall of one sd
(`tests/edge_fed/test_drift.py` repeats it with 100):

    returns              references with a shorter run length    median run length    delay: mean, 95 %
    normal                2.8 %                                   82,000               22, 39
    -exponential         10.3 %                                   19,000               29, 66
    exponential           0.0 %                                  118,000,000           14, 27
    success in 80 %       6.0 %                                   58,000               27, 51

So the stated run length is a lower bound, often far below the true one: the price of not knowing the mean.
"""

import math
import sys
from typing import Annotated

import msgspec
import numpy as np

from edge_fed.params import F8

RUN_LENGTH = 10_000.0  # episodes
FALL = 1.0  # sd
CAUTION = 2.5  # standard errors; 1.645 would do if only the mean were estimated
CLIP = 4.0  # sd: below it an episode counts no more, so that no single one is a drift
LEAST, MOST = CLIP, 1e4  # thresholds
FLAT = 0.01  # least sd, of the largest return
CELLS = 100  # of the Markov chain
LARGEST = sys.float_info.max
HALVINGS = 12  # of the interval that holds the threshold

Finite = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, msgspec.Meta(gt=0.0, le=LARGEST)]


class Reference(msgspec.Struct, frozen=True):
    """What returns are compared with.

    Attributes:
        mean: Of the returns.
        sd: Their standard deviation.
        episodes: n.
        allowance: k, sd.
        threshold: h, sd.
    """

    mean: Finite
    sd: Positive
    episodes: Annotated[int, msgspec.Meta(ge=1)]
    allowance: Positive
    threshold: Positive

    def steps(self, returns: F8) -> F8:
        """What each return adds to the CUSUM, ``[n]``."""
        z: F8 = np.maximum((returns - self.mean) / self.sd, -CLIP)
        return -z - self.allowance


class Cusum(msgspec.Struct, frozen=True):
    """Where the sum is.

    Attributes:
        value: S.
        episodes: Since it was 0 last: if there is a drift, it most likely began then.
        total: Of the returns since then.
    """

    value: Annotated[float, msgspec.Meta(ge=0.0, le=LARGEST)] = 0.0
    episodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    total: Finite = 0.0


def measure(returns: F8, run_length: float = RUN_LENGTH, fall: float = FALL) -> Reference:
    """The reference that ``returns`` ``[n]`` are, and the threshold that belongs to it.

    Args:
        returns: Of one policy, n >= 2.
        run_length: Episodes from one false alarm to the next, on average.
        fall: Of the mean return, in sd, that is to be found soonest.
    """
    sd = max(float(returns.std(ddof=1)), FLAT * float(np.abs(returns).max())) or 1.0
    found = Reference(float(returns.mean()), sd, returns.size, fall / 2, math.inf)
    steps = found.steps(returns) + CAUTION / math.sqrt(returns.size)
    low, high = LEAST, LEAST
    while high < MOST and expected_run_length(steps, high) < run_length:
        low, high = high, 2 * high
    for _ in range(HALVINGS if high > low else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_run_length(steps, middle) < run_length else (low, middle)
    return msgspec.structs.replace(found, threshold=high)


def follow(reference: Reference, cusum: Cusum, returns: F8) -> tuple[Cusum, int | None]:
    """The sum after more returns ``[n]``, and how many of them it took to an alarm; None: there is none."""
    for taken, (step, got) in enumerate(zip(reference.steps(returns), returns, strict=True), 1):
        value = max(0.0, cusum.value + float(step))
        cusum = Cusum(value, cusum.episodes + 1, cusum.total + float(got)) if value else Cusum()
        if value > reference.threshold:
            return cusum, taken
    return cusum, None


def expected_run_length(steps: F8, threshold: float) -> float:
    """Expected number of episodes until S > h from S = 0, each step one of ``steps`` ``[n]`` by chance.

    Source: Brook and Evans 1972. A step ends between two of the chain's states and is shared between them, so
    that its mean is kept.
    """
    if steps.max() <= 0:
        return math.inf
    cells = np.maximum(np.arange(CELLS + 1)[:, None] + steps * (CELLS / threshold), 0.0)  # [states, n]
    state, step = np.nonzero(cells <= CELLS)  # what is beyond them ends in the alarm
    to = cells[state, step]
    lower = to.astype(np.int64)
    upper_share = to - lower
    index = state * (CELLS + 2) + lower
    size = (CELLS + 1) * (CELLS + 2)
    counts = np.bincount(index, 1.0 - upper_share, size) + np.bincount(index + 1, upper_share, size)
    moves = counts.reshape(CELLS + 1, CELLS + 2)[:, :-1] / steps.size
    try:
        found = float(np.linalg.solve(np.eye(CELLS + 1) - moves, np.ones(CELLS + 1))[0])
    except np.linalg.LinAlgError:
        return math.inf
    return found if found > 0 else math.inf  # rounding: longer than floats can tell
