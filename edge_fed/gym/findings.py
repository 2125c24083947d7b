"""What `edge_fed.gym.examine` has to say, and what random episodes suggest."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from edge_fed.envs.gymnasium.play import Episode
from edge_fed.params import F8

Level = Literal["error", "warning", "note"]
LARGE = 1e3  # a reward beyond it is probably in the wrong unit
ORDER_1 = (0.2, 5.0)  # of returns and observations that need no scale
EACH_ENTRY = 32  # longer observations get one scale for all


class Finding(msgspec.Struct, frozen=True):
    """One thing that the user should know.

    Attributes:
        level: ``error``: a run would fail, or its numbers would mean nothing.
        check: Which check found it.
        message: What was found.
        hint: What to do; may be empty.
    """

    level: Level
    check: str
    message: str
    hint: str = ""


class Observed(msgspec.Struct, frozen=True):
    """What random actions met, unscaled.

    Attributes:
        episodes: How many there were.
        mean_length: Steps of an episode.
        terminated: Fraction of the episodes that ended by themselves.
        truncated: Fraction that the environment cut.
        reward: Least and largest of a step.
        discounted_return: Least and largest of an episode.
        reach: Largest absolute value of each entry of an observation; empty for Discrete.
        success: Fraction of episodes that reported success; None: none mentions it.
    """

    episodes: int
    mean_length: float
    terminated: float
    truncated: float
    reward: tuple[float, float]
    discounted_return: tuple[float, float]
    reach: list[float]
    success: float | None


class Examination(msgspec.Struct, frozen=True):
    """All findings; what was observed and could be set in ``args``, where it came so far."""

    findings: list[Finding]
    observed: Observed | None = None
    suggestions: dict[str, Any] = {}

    @property
    def fit(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


NOT_PROVED = (
    Finding(
        "note",
        "reward timing",
        "cannot be proved: the reward of a step counts as that of the state and action BEFORE the move; an "
        "environment that pays for the state after it is used as it is, one step shifted",
    ),
)
BOOTSTRAP = Finding(
    "note",
    "objective",
    "bootstrap = 'value': training adds an estimate of what follows to every episode that is cut, after H+1 "
    "steps or by the environment; adaptation and scores count what is paid",
)


def measured(episodes: Sequence[Episode], discount: float) -> Observed:
    """The numbers of some episodes."""
    rewards = np.concatenate([episode.rewards for episode in episodes])
    with np.errstate(over="ignore", invalid="ignore"):  # `remarks` says so
        returns = [float(e.rewards @ discount ** np.arange(len(e.rewards))) for e in episodes]
    told = [episode.success for episode in episodes if episode.success is not None]
    return Observed(
        episodes=len(episodes),
        mean_length=rewards.size / len(episodes),
        terminated=float(np.mean([episode.terminated for episode in episodes])),
        truncated=float(np.mean([episode.truncated for episode in episodes])),
        reward=(float(rewards.min()), float(rewards.max())),
        discounted_return=(min(returns), max(returns)),
        reach=_reach(episodes),
        success=float(np.mean(told)) if told else None,
    )


def _reach(episodes: Sequence[Episode]) -> list[float]:
    if episodes[0].states.dtype.kind == "i":
        return []
    states: F8 = np.concatenate([episode.states for episode in episodes])
    reach: list[float] = np.abs(states).max(axis=0).ravel().tolist()
    return reach if len(reach) <= EACH_ENTRY else [max(reach)]


def remarks(found: Observed, horizon: int, *, bootstrap: bool = False) -> Iterator[Finding]:
    """What of the numbers is worth a word."""
    low, high = found.reward
    if not np.isfinite(found.discounted_return).all():
        text = f"rewards reach from {low:.3g} to {high:.3g}, so large that returns are not finite"
        yield Finding("error", "rewards", text, "mend step: pay in another unit, or end the episode earlier")
    elif max(abs(low), abs(high)) > LARGE:
        text = f"rewards reach from {low:.3g} to {high:.3g}: step sizes are meant for returns of order 1"
        yield Finding("warning", "rewards", text, "set reward_scale and reward_shift in args")
    elif low == high and not found.terminated:
        text = f"every reward under random actions is {low:g}: a policy gradient has nothing to go by"
        yield Finding("warning", "rewards", text, "make the reward denser, or the horizon longer")
    if found.mean_length == 1 and horizon > 0:
        yield Finding("warning", "ends", "every episode ends after its first step", "is terminated right?")
    if found.truncated and found.mean_length < horizon + 1:
        text = f"the environment cuts {found.truncated:.0%} of the episodes before H+1 = {horizon + 1} steps"
        hint = "what would follow counts nowhere (no bootstrap); raise its limit, or lower the horizon"
        yield Finding("note", "ends", text, "" if bootstrap else hint)
    if bootstrap:
        yield BOOTSTRAP
    if found.success is None:
        text = 'no episode has info["is_success"]: runs report no success'
        yield Finding("note", "success", text, "set success = true in args if only a good policy reports it")


def suggestions(found: Observed) -> dict[str, Any]:
    """Values of ``args`` that bring returns and observations to order 1; empty: they are."""
    wanted: dict[str, Any] = {}
    largest = max(map(abs, found.discounted_return))
    if largest and not ORDER_1[0] <= largest <= ORDER_1[1]:
        wanted["reward_scale"] = _two_digits(1 / largest)
    if any(value and not ORDER_1[0] <= value <= ORDER_1[1] for value in found.reach):
        scales = [_two_digits(1 / value) if value else 1.0 for value in found.reach]
        wanted["obs_scale"] = scales[0] if len(scales) == 1 else scales
    return wanted


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")
