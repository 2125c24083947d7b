"""What a user measures: three protocols, one of which leaks and says so."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Onboarding
from edge_fed.errors import MissingData
from edge_fed.federated.task import initial_params
from edge_fed.params import params_sha256
from edge_fed.supervised.evaluation import Bench
from server.rows import EvaluationRow
from tests.edge_fed.supervised.cases import learner, small


def config(**changes):
    """Of the small run."""
    return msgspec.structs.replace(small().onboarding, **changes)


def rows_of(batch):
    """The images of a batch as hashable rows."""
    return {tuple(row) for row in batch[0].tolist()}


@pytest.mark.parametrize(
    ("adapt_from", "protocol", "scored"),
    [("train", "train", 40), ("split", "split", 30), ("test", "test (LEAKS)", 40)],
)
def test_each_protocol_is_named_and_counted(adapt_from, protocol, scored):
    """Samples of the step and samples scored, twice: before it and after it; the server takes the row."""
    task, params = learner(0), initial_params(small())
    row = task.evaluate(params, 0, config(adapt_from=adapt_from))
    assert row["protocol"] == protocol
    assert (row["adapt_trajectories"], row["eval_trajectories"]) == (10, 2 * scored)
    assert row["trajectories"] == 10 + 2 * scored
    assert msgspec.convert(row, EvaluationRow).m_adapt == 10
    assert task.spent == 0


def test_only_the_protocol_that_leaks_adapts_on_what_it_scores():
    """The images of the step and the scored ones are disjoint, but for ``test``."""
    task = learner(0)
    shared = {}
    for adapt_from in ("train", "split", "test"):
        bench = Bench(task.fresh(), 0, config(adapt_from=adapt_from), 10)
        shared[adapt_from] = rows_of(bench.batch(10, 0)) & rows_of(bench._scored)
    assert shared["train"] == shared["split"] == set()
    assert shared["test"]


def test_evaluation_changes_nothing_and_repeats():
    """[complaints 42] Parameters and learner are as before; the second time gives the same numbers."""
    task, params = learner(2), initial_params(small())
    before = params_sha256(params)
    first = task.evaluate(params, 3, config())
    assert task.evaluate(params, 3, config()) == first
    assert params_sha256(params) == before
    assert first != task.evaluate(params, 4, config()), "another run seed adapts on other images"


def test_methods_and_budgets_share_their_images():
    """Neither method nor alpha is in the key; a split's smaller budget takes the first of a larger's."""
    one, other = learner(0), learner(0, "algorithm.variant=fedavg")
    benches = [Bench(task.fresh(), 0, config(adapt_from="split"), 10) for task in (one, other)]
    assert np.array_equal(benches[0].batch(10, 0)[0], benches[1].batch(10, 0)[0])
    assert np.array_equal(benches[0].batch(4, 0)[0], benches[0].batch(10, 0)[0][:4])


def test_a_step_is_the_run_s_alpha_on_the_mean_gradient():
    """Theta + alpha grad J, whatever the variant: FedAvg adapts when it is evaluated."""
    task, params = learner(0, "algorithm.variant=fedavg"), initial_params(small())
    bench = Bench(task.fresh(), 0, config(), 10)
    batch = Bench(task.fresh(), 0, config(), 10).batch(10, 0)
    expected = params + 0.1 * task.model.gradient(params, batch)
    assert np.array_equal(bench.adapt(params, 10), expected)
    other = Bench(task.fresh(), 0, config(step_size=0.7), 10)
    assert np.array_equal(other.adapt(params, 10), params + 0.7 * task.model.gradient(params, batch))


def test_a_split_must_leave_something_to_score():
    """The message names the user, its images and the way out."""
    with pytest.raises(MissingData, match="user 2 has 20 test images: a split of 20"):
        learner(2).evaluate(initial_params(small()), 0, config(adapt_from="split", adapt_episodes=20))


def test_an_unseen_user_splits_whatever_the_run_says():
    """It has nothing else: its rows are of protocol split."""
    for adapt_from in ("train", "test"):
        found = learner(4).onboard(
            initial_params(small()), 0, config(adapt_from=adapt_from), lambda _done: None
        )
        assert {row["protocol"] for row in found.rows} == {"split"}


def test_a_number_of_episodes_to_score_changes_nothing():
    """Everything left is scored: eval_episodes belongs to tasks that sample."""
    params = initial_params(small())
    assert Onboarding().eval_episodes != 3
    assert learner(1).evaluate(params, 0, config(eval_episodes=3)) == learner(1).evaluate(params, 0, config())
