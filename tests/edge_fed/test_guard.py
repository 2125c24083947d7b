"""The guard, case by case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.errors import NonFinite
from edge_fed.meta.guard import guarded
from tests.edge_fed import checks

# Zero or of moderate size: the properties below are checked by subtraction, which cancels otherwise.
numbers = st.floats(-100, 100).map(lambda x: 0.0 if abs(x) < 0.1 else x)
vectors = st.lists(numbers, min_size=3, max_size=3).map(np.array)
kappas = st.floats(1e-3, 1.0)


def test_worked_cases():
    """Inside the bound, outside it, on it, off, and v = 0."""
    checks.check_guard()


def test_zero_v_gives_zero_under_any_kappa():
    """Without an outer gradient there is nothing to correct: direction, ratio and cosine are 0."""
    found = guarded(np.zeros(3), np.ones(3), 0.5)
    assert not found.direction.any()
    assert (found.ratio, found.cosine) == (0.0, 0.0)
    assert not guarded(np.zeros(3), np.zeros(3), 0.5).bites


@pytest.mark.parametrize("kappa", [0.5, "off"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_non_finite_curvature_is_refused_by_name(bad, kappa):
    """NaN, infinity and overflow of the norm refuse the step, guard on or off."""
    c = np.array([0.0, bad, 0.0])
    with np.errstate(over="ignore"), pytest.raises(NonFinite, match="alpha H v"):
        guarded(np.ones(3), c, kappa)
    with np.errstate(over="ignore"), pytest.raises(NonFinite):
        guarded(c, np.ones(3), kappa)


@settings(derandomize=True)
@given(vectors, vectors, kappas)
def test_correction_never_exceeds_kappa_and_never_turns_against_v(v, c, kappa):
    """||direction - v|| <= kappa ||v||, and direction . v >= 0 for kappa <= 1."""
    direction = guarded(v, c, kappa).direction
    size = np.linalg.norm(v)
    assert np.linalg.norm(direction - v) <= kappa * size * (1 + 1e-9) + 1e-12
    assert direction @ v >= -1e-9 * size * size


@settings(derandomize=True)
@given(vectors, vectors)
def test_off_is_the_plain_sum_to_the_bit(v, c):
    """Guard off is the paper."""
    assert guarded(v, c, "off").direction.tobytes() == (v + c).tobytes()


@settings(derandomize=True)
@given(vectors, vectors, kappas)
def test_correction_keeps_its_direction(v, c, kappa):
    """The guard only scales c: what it adds is parallel to c, by a factor in [0, 1]."""
    found = guarded(v, c, kappa)
    added, size = found.direction - v, np.linalg.norm(c)
    scale = float(added @ c) / size**2 if size else 0.0
    assert -1e-9 <= scale <= 1 + 1e-9
    assert np.linalg.norm(added - scale * c) <= 1e-9 * max(size, float(np.linalg.norm(v)))
