"""What a user that never trained measures."""

import msgspec
import numpy as np
import pytest

from edge_fed.federated.task import initial_params
from edge_fed.summaries import onboarding_summary
from edge_fed.supervised.evaluation import Bench
from tests.edge_fed.supervised.cases import learner, small


def found_of(goal, **changes):
    """The rows of one user at the initial parameters."""
    config = msgspec.structs.replace(small().onboarding, **changes)
    told = []
    found = learner(goal).onboard(initial_params(small()), 0, config, told.append)
    assert told == list(range(len(told))), "progress counts pieces of work"
    return found


def test_one_row_per_initialization_and_budget():
    """Zero-shot, m-shot plain and careful, untrained, from scratch; and what they spent."""
    rows = found_of(4).rows
    assert [(row["init"], row["m_adapt"], row["trajectories"]) for row in rows] == [
        ("learned", 0, 0),
        ("learned", 10, 10),
        ("careful", 10, 10),
        ("random", 0, 0),
        ("scratch", 20, 20),
    ]
    assert rows[2]["factor"] in (0.0, 0.25, 0.5, 1.0)
    assert len(onboarding_summary(rows)) == 5


def test_samples_of_adapting_and_of_scoring_are_told_apart():
    """Ten for each of the two steps and twenty from scratch; five scores of the thirty images left."""
    found = found_of(4)
    assert (found.adapt_trajectories, found.eval_trajectories, found.env_steps) == (40, 5 * 30, 0)


def test_what_is_left_out_is_not_measured():
    """Rows that the run does not want cost nothing."""
    rows = found_of(4, careful=False, random=False, scratch=()).rows
    assert [row["init"] for row in rows] == ["learned", "learned"]


def test_a_careful_step_keeps_what_would_get_worse():
    """A step size that ruins the model is not taken; one that helps is."""
    params = initial_params(small())
    ruinous = found_of(4, step_size=1e4, m_adapt=(0, 20)).rows
    careful = next(row for row in ruinous if row["init"] == "careful")
    zero_shot = next(row for row in ruinous if (row["init"], row["m_adapt"]) == ("learned", 0))
    assert careful["factor"] == 0.0
    assert careful["return"] == zero_shot["return"]
    helpful = found_of(5, step_size=0.5, m_adapt=(0, 15))
    assert next(row for row in helpful.rows if row["init"] == "careful")["factor"] > 0
    assert not np.array_equal(helpful.params, params), "what --save keeps is the careful step"


def test_a_careful_step_is_tried_on_images_that_it_has_not_seen():
    """The gradient comes from the first four fifths alone."""
    task, params = learner(4), initial_params(small())
    bench = Bench(task.fresh(), 0, small().onboarding, 10)
    x, y = bench.batch(10, 0)
    taken, factor = task.careful_step(params, (x, y), 0.5)
    assert factor > 0
    expected = params + factor * 0.5 * task.model.gradient(params, (x[:8], y[:8]))
    assert taken == pytest.approx(expected, abs=1e-15)


def test_one_image_cannot_be_split():
    """Nothing is left to try a step with, so none is taken."""
    task, params = learner(4), initial_params(small())
    x, y = task.user.examples("test")
    taken, factor = task.careful_step(params, (x[:1], y[:1]), 0.5)
    assert (factor, np.array_equal(taken, params)) == (0.0, True)


def test_a_step_that_one_image_alone_has_tried_is_not_taken():
    """Nine images leave one to try with: nothing says what chance does, so the initialization is kept."""
    task = learner(0)
    params = task.initial(np.random.default_rng(0))
    for m in (5, 9):
        assert np.array_equal(task.adapt(params, m, np.random.default_rng(1), careful=True), params)
    plain = task.adapt(params, 9, np.random.default_rng(1))
    assert not np.array_equal(plain, params)
