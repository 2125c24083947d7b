"""Measuring an initialization on a user's images: before and after one step (methods.md 9).

Where the step's images come from, ``adapt_from``:

- ``train`` (default): from the user's training images; all its test images are scored. An honest figure.
- ``split``: m of its test images, the rest is scored. Honest, too, and all that an unseen user can do.
- ``test``: from the test images that are then scored. The sources' own protocol as it is written ("one step
  of local stochastic gradient descent on its test data"); it LEAKS, and every row of it says so.

The rows have the keys of `edge_fed.evaluation`: ``return`` is J = minus the mean cross-entropy, ``success``
the accuracy, ``trajectories`` samples. As there, streams are keyed by run seed and agent alone, so that
methods and rounds share the images; nothing here changes the learner. The number of images of the step is
``adapt_episodes``; ``eval_episodes`` is not used: everything left is scored, and counted.
"""

from typing import TYPE_CHECKING

import numpy as np

from edge_fed.config import Onboarding
from edge_fed.datasets.base import Indices, Part
from edge_fed.errors import MissingData
from edge_fed.evaluation import ADAPT_STEP, LATER_STEP
from edge_fed.learner import Row
from edge_fed.params import F8
from edge_fed.seeding import Purpose, stream
from edge_fed.supervised.network import Batch

if TYPE_CHECKING:
    from edge_fed.supervised.learner import Supervised

PROTOCOLS = {"train": "train", "split": "split", "test": "test (LEAKS)"}


def evaluate(learner: "Supervised", params: F8, seed: int, config: Onboarding) -> Row:
    """Measures a user at the shared ``params`` ``[d]``; ``learner`` is fresh, and counts.

    Returns:
        The keys of `edge_fed.evaluation.evaluate`, and ``protocol``.
    """
    bench = Bench(learner, seed, config, config.adapt_episodes)
    before, accuracy = bench.score(params)
    after, adapted = bench.score(bench.adapt(params, config.adapt_episodes))
    return {
        "agent": learner.agent,
        "kind": "mc",
        "expected_return": before,
        "meta_objective": after,
        "success": accuracy,
        "success_adapted": adapted,
        "m_adapt": config.adapt_episodes,
        "trajectories": learner.spent + bench.scored,
        "adapt_trajectories": learner.spent,
        "eval_trajectories": bench.scored,
        "env_steps": 0,
        "protocol": bench.protocol,
    }


class Bench:
    """One user's images to adapt with and to be scored on.

    Args:
        learner: Whose; it counts.
        seed: Run seed.
        config: Protocol and step size.
        largest: Images of the largest budget: so many go to the first half of a split.

    Raises:
        MissingData: A split leaves nothing to score.
    """

    def __init__(self, learner: "Supervised", seed: int, config: Onboarding, largest: int) -> None:
        self.learner, self.seed = learner, seed
        self.alpha = learner.settings.inner_step_size if config.step_size is None else config.step_size
        self.scored = 0
        adapt_from = "split" if learner.user.unseen else config.adapt_from
        self.protocol = PROTOCOLS[adapt_from]
        part: Part = "train" if adapt_from == "train" else "test"
        self._own = learner.user.examples(part)  # what it adapts with
        self._scored = learner.user.examples("test")
        self._is_split = adapt_from == "split"
        if self._is_split:
            self._split(largest)

    def _split(self, largest: int) -> None:
        """The first ``largest`` images of an order of its own to adapt with, the rest to be scored."""
        x, y = self._own
        if largest >= y.size:
            raise MissingData(
                f"user {self.learner.agent} has {y.size} test images: a split of {largest} to adapt with "
                "leaves none to score; take a smaller budget or a larger a_test"
            )
        order = stream(self.seed, self.learner.agent, 0, ADAPT_STEP, Purpose.ADAPT).permutation(y.size)
        kept, rest = order[:largest], order[largest:]
        self._own, self._scored = (x[kept], y[kept]), (x[rest], y[rest])

    def batch(self, m: int, step: int, purpose: Purpose = Purpose.EVALUATE) -> Batch:
        """The m images of one step: of a split the first m in its first step, else drawn independently."""
        x, y = self._own
        if self._is_split and step == ADAPT_STEP and purpose is Purpose.EVALUATE:
            chosen: Indices = np.arange(m)
        else:
            rng = stream(self.seed, self.learner.agent, 0, step, purpose)
            chosen = rng.integers(0, y.size, m)
        self.learner.counter.samples += m
        return x[chosen], y[chosen]

    def adapt(self, params: F8, m: int) -> F8:
        """Parameters after ``adapt_steps`` steps on m images each."""
        for step in range(self.learner.settings.adapt_steps if m else 0):
            params = self.learner.stepped(params, self.batch(m, _word(step)), self.alpha)
        return params.copy()

    def adapt_carefully(self, params: F8, m: int) -> tuple[F8, float]:
        """The same, with the last fifth of each m kept to try the step; and the last step's factor."""
        factor = 0.0
        for step in range(self.learner.settings.adapt_steps):
            params, factor = self.learner.careful_step(params, self.batch(m, _word(step)), self.alpha)
        return params, factor

    def score(self, params: F8) -> tuple[float, float]:
        """J and accuracy on all images to be scored."""
        self.scored += self._scored[1].size
        return self.learner.model.measure(self.learner.model.cast(params), self._scored)


def _word(step: int) -> int:
    return ADAPT_STEP if step == 0 else LATER_STEP + step - 1
