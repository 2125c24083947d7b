"""Is a Gymnasium environment fit for federated runs? What would go wrong there, found before one.

Beyond Gymnasium's own checker: an episode must be a function of its seed and its actions alone, whatever was
played before it, beside it or in another instance. Equal bits in all runtimes, replays, and comparisons on
common random numbers rest on that.
"""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.utils.env_checker import check_env

from edge_fed.envs.gymnasium.instance import Instance, Scales
from edge_fed.envs.gymnasium.play import Episode, Play
from edge_fed.envs.gymnasium.spaces import refusals
from edge_fed.errors import BadEnvironment
from edge_fed.gym.findings import NOT_PROVED, Examination, Finding, measured, remarks, suggestions
from edge_fed.user_code import USER_FAULTS

EPISODES = 8  # behind what is said of lengths, rewards and ranges
COLOURS = re.compile(r"\x1b\[[0-9;]*m|^(WARN|ERROR): ")
BESIDE_THE_POINT = (  # of Gymnasium's warnings: edge_fed maps and clips boxes itself, and nobody renders
    "is different from the unwrapped version",
    "alternative render modes",
    "For Box action spaces, we recommend",
    "value is infinity",
    "value is -infinity",
)
GYMNASIUM = "gymnasium"
SEEDED = "in reset call super().reset(seed=seed), and draw everything random from self.np_random"


class _Workshop:
    """Makes environments, plays episodes in them, closes them all."""

    def __init__(self, make: Callable[[], Any], horizon: int) -> None:
        self._make, self._horizon = make, horizon
        self.envs: list[Any] = []

    def instance(self) -> Instance:
        """A new one."""
        self.envs.append(self._make())
        return Instance(self.envs[-1], Scales(1.0, 0.0, None))

    def begin(self, instance: Instance, seed: int) -> Play:
        """An episode to be stepped."""
        return Play(instance, seed, self._horizon)

    def play(self, instance: Instance, *seeds: int) -> Episode:
        """Whole episodes in a row; returns the last."""
        return [self.begin(instance, seed).episode() for seed in seeds][-1]

    def close(self) -> None:
        """Closes what was made."""
        for env in self.envs:
            with contextlib.suppress(*USER_FAULTS):  # what has no close, too
                env.close()


def examine(
    make: Callable[[], Any],
    horizon: int,
    discount: float,
    report: Callable[[str], None] = lambda _what: None,
    *,
    bootstrap: bool = False,
) -> Examination:
    """Runs the checks in order; after an error none that needs what failed.

    Args:
        make: Makes one more environment; may raise ValueError.
        horizon: H; episodes are played for H+1 steps.
        discount: gamma, of the returns that are reported.
        report: Is told what is being checked.
        bootstrap: Whether training adds an estimate of what follows a cut.
    """
    shop = _Workshop(make, horizon)
    findings: list[Finding] = []
    try:
        shop.envs.append(make())
        findings += [Finding("error", "spaces", line) for line in refusals(shop.envs[0])]
        if findings:
            return Examination(findings)
        findings += _by_gymnasium(shop.envs[0])
        for name, check in CHECKS.items():
            report(name)
            findings += check(shop)
        report("random episodes")
        episodes = [shop.play(shop.instance(), 100 + k) for k in range(EPISODES)]
    except (BadEnvironment, ValueError) as error:
        return Examination([*findings, Finding("error", "values", str(error))])
    finally:
        shop.close()
    found = measured(episodes, discount)
    findings += remarks(found, horizon, bootstrap=bootstrap)
    if not np.isfinite(found.discounted_return).all():
        return Examination(findings)
    return Examination([*findings, *NOT_PROVED], found, suggestions(found))


def _by_gymnasium(env: Any) -> Iterator[Finding]:
    """Gymnasium's own checker, as errors and warnings of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Both skipped checks make the environment from its spec, which a user's wrapper has not
            check_env(env, skip_render_check=True, skip_close_check=True)
        except USER_FAULTS as error:  # it raises whatever fits, and whatever the environment raises
            yield Finding("error", GYMNASIUM, f"{type(error).__name__}: {COLOURS.sub('', str(error))}")
    said = dict.fromkeys(COLOURS.sub("", COLOURS.sub("", str(warning.message))) for warning in caught)
    for text in said:
        if not any(part in text for part in BESIDE_THE_POINT):
            yield Finding("warning", GYMNASIUM, text)


def _same_seed(shop: _Workshop) -> Iterator[Finding]:
    """Two new instances, one seed."""
    if what := _difference(shop.play(shop.instance(), 1), shop.play(shop.instance(), 1)):
        yield Finding("error", "same seed", f"two new instances with the same seed differ in {what}", SEEDED)


def _history(shop: _Workshop) -> Iterator[Finding]:
    """An episode after another one, and alone."""
    if what := _difference(shop.play(shop.instance(), 1, 2), shop.play(shop.instance(), 2)):
        yield Finding(
            "error",
            "history",
            f"episode 2 after episode 1 differs from episode 2 alone in {what}: "
            "something outlives the reset, such as a generator or a drifting parameter",
            f"set every attribute anew in reset; {SEEDED}",
        )


def _neighbours(shop: _Workshop) -> Iterator[Finding]:
    """An episode beside one in another instance, and alone."""
    alone = shop.play(shop.instance(), 3)
    first = shop.begin(shop.instance(), 3)
    second = shop.begin(shop.instance(), 4)
    while not first.over:
        first.step()
        if not second.over:
            second.step()
    if what := _difference(first.episode(), alone):
        yield Finding(
            "error",
            "neighbours",
            f"an episode beside one in another instance differs from the same alone in {what}: "
            "instances share something, such as a class attribute, a module's variable or a global generator",
            "keep all state in self",
        )


CHECKS: dict[str, Callable[[_Workshop], Iterator[Finding]]] = {
    "same seed": _same_seed,
    "history": _history,
    "neighbours": _neighbours,
}
"""Whether an episode is a function of its seed and actions: a new check is one function and one line."""


def _difference(first: Episode, second: Episode) -> str:
    """In what two episodes differ; empty: in nothing."""
    if first.states.shape != second.states.shape:
        return f"length ({len(first.rewards)} and {len(second.rewards)} steps)"
    for name in Episode._fields:
        if not np.array_equal(getattr(first, name), getattr(second, name)):
            return "observations" if name == "states" else name
    return ""
