"""The measured diversity of a partition against distributions worked out by hand."""

import numpy as np
import pytest

from edge_fed.theory.diversity import distances, gradient_diversity, spread
from edge_fed.theory.supervised import total_variation


def test_labels_of_the_sources_partition():
    """Two kinds of users by hand: half uniform on 0-4, half 1/5 on one of 0-4 and 4/5 on one of 5-9."""
    a = np.repeat(np.arange(5), 20)
    users = [a] * 25 + [np.repeat([j % 5, 5 + j // 5], [20, 80]) for j in range(25)]
    images = [np.zeros((len(labels), 2), np.uint8) for labels in users]
    found = distances(images, users, 10)
    p = np.r_[np.full(5, 0.12), np.full(5, 0.08)]  # (1/5 + 1/25)/2 and (4/25)/2
    first = total_variation(np.r_[np.full(5, 0.2), np.zeros(5)], p)
    second = total_variation(np.r_[0.2, np.zeros(4), 0.8, np.zeros(4)], p)
    assert (first, second) == (pytest.approx(0.4), pytest.approx(0.8))
    assert found.label_tv == pytest.approx(np.sqrt((0.4**2 + 0.8**2) / 2))
    assert found.example_tv == pytest.approx(0.98)
    assert found.pixel_tv == found.pixel_w1 == found.marginal_tv == found.marginal_w1 == 0.0


def test_pixels_by_hand():
    """One user all black, one all white: each is half a range from the mean, in TV and in W1."""
    images = [np.zeros((3, 4), np.uint8), np.full((5, 4), 255, np.uint8)]
    found = distances(images, [np.zeros(3, np.int64), np.zeros(5, np.int64)], 2)
    assert found.pixel_tv == found.marginal_tv == pytest.approx(0.5)
    assert found.pixel_w1 == found.marginal_w1 == pytest.approx(0.5)
    assert found.label_tv == 0.0


def test_pooling_hides_what_single_pixels_show():
    """Two users with the same intensities in other places: equal when pooled, far apart pixel by pixel."""
    images = [np.tile(np.array([0, 255], np.uint8), (4, 1)), np.tile(np.array([255, 0], np.uint8), (4, 1))]
    found = distances(images, [np.zeros(4, np.int64)] * 2, 2)
    assert found.pixel_w1 == pytest.approx(0.0, abs=1e-12)
    assert found.marginal_w1 == pytest.approx(0.5)
    assert found.marginal_tv == pytest.approx(0.5)


def test_a_near_intensity_is_near_in_w1_alone():
    """TV does not know that 100 is close to 102; W1 does."""
    images = [np.full((2, 3), 100, np.uint8), np.full((2, 3), 102, np.uint8)]
    found = distances(images, [np.zeros(2, np.int64)] * 2, 2)
    assert found.pixel_tv == pytest.approx(0.5)
    assert found.pixel_w1 == pytest.approx(1 / 255)


def test_gradients_and_spread():
    """Root mean squares around the mean."""
    assert gradient_diversity([np.array([1.0, 0.0]), np.array([-1.0, 0.0])]) == pytest.approx(1.0)
    assert spread([np.array([1.0, 0.0]), np.array([0.0, 1.0])], total_variation) == pytest.approx(0.5)
