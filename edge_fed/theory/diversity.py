"""How different the users of a partition are, measured, beside the bounds of `edge_fed.theory.supervised`.

The theorem's diversity is of distributions p_i of examples z = (x, y). Of finite data there is more than one
reading:

- labels: the users' images of one class come from one pool, so that in the population all p_i share
  p(x | y). Then TV(p_i, p) of z IS that of the labels. W1 of labels with the distance 1[y != y'] is the same.
- pixels: the intensities of all pixels of a user's images pooled (256 values), and of each pixel alone,
  averaged over the pixels. W1 is in units of the whole range, black to white. For images with the mean
  absolute difference of their pixels as distance, W1 is at least the mean over single pixels.
- examples: users share no image, so that TV of the empirical distributions of z is 1 - 1/n exactly, whatever
  the images.

All are root mean squares over the users, sqrt((1/n) sum distance(p_i, p)^2), which the bounds are made of.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_fed.params import F8
from edge_fed.theory.supervised import total_variation, wasserstein

LEVELS = 256
INTENSITIES = np.linspace(0.0, 1.0, LEVELS)


class Distances(msgspec.Struct, frozen=True):
    """Root mean squares over users of the distance of p_i to p.

    Attributes:
        label_tv: Of labels; also W1 with the distance 1[y != y'].
        pixel_tv: Of pooled intensities.
        pixel_w1: Of pooled intensities, 1 is black to white.
        marginal_tv: Of single pixels, mean over the pixels.
        marginal_w1: Of single pixels, mean over the pixels.
        example_tv: Of the examples themselves.
    """

    label_tv: float
    pixel_tv: float
    pixel_w1: float
    marginal_tv: float
    marginal_w1: float
    example_tv: float


def distances(
    images: Sequence[NDArray[np.uint8]], labels: Sequence[NDArray[np.int64]], classes: int
) -> Distances:
    """Measures a partition whose users share no example.

    Args:
        images: Of each user, ``[n_i, inputs]``, 0 to 255.
        labels: Of each user, ``[n_i]``.
        classes: Number of labels.
    """
    by_label = [np.bincount(mine, minlength=classes) / mine.size for mine in labels]
    pooled = [_single(mine).mean(axis=0) for mine in images]
    mean = sum(_single(mine) for mine in images) / len(images)
    tv, w1 = np.array([_apart(_single(mine) - mean) for mine in images]).T
    return Distances(
        label_tv=spread(by_label, total_variation),
        pixel_tv=spread(pooled, total_variation),
        pixel_w1=spread(pooled, lambda p, q: wasserstein(INTENSITIES, p, q)),
        marginal_tv=_root_mean_square(tv),
        marginal_w1=_root_mean_square(w1),
        example_tv=1.0 - 1.0 / len(labels),
    )


def spread(users: Sequence[F8], distance: Callable[[F8, F8], float]) -> float:
    """sqrt((1/n) sum distance(p_i, p)^2) for distributions p_i, each ``[Z]``, and their mean p."""
    mean = np.mean(users, axis=0)
    return _root_mean_square(np.array([distance(p, mean) for p in users]))


def gradient_diversity(gradients: Sequence[F8]) -> float:
    """sqrt((1/n) sum ||grad f_i - grad f||^2) at one point: gamma_G is its largest value over all points."""
    mean = np.mean(gradients, axis=0)
    return _root_mean_square(np.array([np.linalg.norm(g - mean) for g in gradients]))


def _single(images: NDArray[np.uint8]) -> F8:
    """Of each pixel the distribution of its intensity, ``[inputs, LEVELS]``."""
    inputs = images.shape[1]
    places = np.arange(inputs, dtype=np.int64) * LEVELS + images
    counts = np.bincount(places.ravel(), minlength=inputs * LEVELS)
    return counts.reshape(inputs, LEVELS) / len(images)


def _apart(difference: F8) -> tuple[float, float]:
    """TV and W1 of single pixels, means over the pixels, of the difference of their distributions."""
    between = np.abs(np.cumsum(difference, axis=1)[:, :-1]).sum(axis=1) / (LEVELS - 1)
    return float(np.abs(difference).sum(axis=1).mean() / 2), float(between.mean())


def _root_mean_square(values: F8) -> float:
    return float(np.sqrt(np.mean(values**2)))
