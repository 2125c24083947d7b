"""Averages over agents and goals, worked by hand."""

import itertools

import pytest

from edge_fed.summaries import evaluation_summary, onboarding_summary


def evaluated(agent, before, after, success=0.5, kind="mc", m_adapt=256):
    """One agent's evaluation row."""
    return {
        "agent": agent,
        "kind": kind,
        "expected_return": before,
        "meta_objective": after,
        "success": success,
        "success_adapted": success,
        "m_adapt": m_adapt,
        "trajectories": 10,
        "env_steps": 210,
    }


def onboarded(goal, init, m, value, success=0.5):
    """One goal's onboarding row."""
    return {"goal": goal, "init": init, "m_adapt": m, "return": value, "success": success, "trajectories": m}


def test_evaluation_means_worst_and_hurt():
    """One of four agents loses by adapting; agent 2 ends worst; sums are sums."""
    rows = [evaluated(3, 1.0, 2.0), evaluated(0, 1.0, 0.5), evaluated(1, 1.0, 1.5), evaluated(2, 0.25, 0.25)]
    found = evaluation_summary(rows)
    assert found["n"] == 4 and found["meta_objective_kind"] == "mc" and found["m_adapt"] == 256
    assert (found["expected_return"], found["meta_objective"]) == (0.8125, 1.0625)
    assert (found["worst_agent"], found["worst_meta_objective"]) == (2, 0.25)
    assert found["fraction_hurt"] == 0.25
    assert (found["trajectories"], found["env_steps"]) == (40, 840)


def test_the_order_of_arrival_changes_no_bit():
    """Means are summed in agent order: every permutation of three rows gives the same bits."""
    rows = [evaluated(0, 0.1, 1e16), evaluated(1, 0.2, -1e16), evaluated(2, 0.3, 0.7)]
    found = [evaluation_summary(order) for order in itertools.permutations(rows)]
    assert all(one == found[0] for one in found)
    assert found[0]["meta_objective"] == 0.7 / 3  # another order would give 0


def test_a_mixture_is_not_called_dp():
    """One sampled agent makes the average a sampled one; differing budgets are not one budget."""
    rows = [evaluated(0, 1, 1, kind="dp", m_adapt=None), evaluated(1, 1, 1)]
    found = evaluation_summary(rows)
    assert (found["meta_objective_kind"], found["m_adapt"]) == ("mc", None)
    assert evaluation_summary(rows[:1])["meta_objective_kind"] == "dp"


def test_unknown_success_stays_unknown():
    """A mean over agents of which one has no success is None, not a mean of the others."""
    found = evaluation_summary([evaluated(0, 1, 1), evaluated(1, 1, 1, success=None)])
    assert found["success"] is None and found["success_adapted"] is None


def test_no_rows_is_an_error():
    """An average of nobody is refused."""
    with pytest.raises(ValueError, match="no evaluation rows"):
        evaluation_summary([])


def test_onboarding_lines_per_initialization_and_budget():
    """Rows of two goals become one line each, in the rows' order; hurt compares with the goal's zero-shot."""
    rows = [
        onboarded(7, "learned", 0, 1.0, 0.6),
        onboarded(7, "learned", 20, 0.5, 0.4),
        onboarded(7, "random", 0, 0.1),
        onboarded(6, "learned", 0, 2.0, 0.8),
        onboarded(6, "learned", 20, 2.5, 1.0),
        onboarded(6, "random", 0, 0.3),
    ]
    learned, adapted, random = onboarding_summary(rows)
    assert (learned["init"], learned["m_adapt"], learned["n"]) == ("learned", 0, 2)
    assert (learned["return"], learned["success"], learned["fraction_hurt"]) == (1.5, 0.7, None)
    assert (adapted["return"], adapted["worst_goal"], adapted["worst_return"]) == (1.5, 7, 0.5)
    assert adapted["fraction_hurt"] == 0.5
    assert (random["init"], random["return"], random["fraction_hurt"]) == ("random", 0.2, None)


def test_hurt_is_unknown_without_zero_shot():
    """Without a zero-shot row nobody can say who was hurt."""
    (line,) = onboarding_summary([onboarded(6, "learned", 20, 1.0)])
    assert line["fraction_hurt"] is None
    assert onboarding_summary([]) == []
