"""The sources' partition: who has how many images of which class, and that none is had twice."""

import numpy as np
import pytest

from edge_fed.errors import MissingData
from edge_fed.supervised.partition import need, shares

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def labels_of(counts):
    """So many of each class, shuffled."""
    labels = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    return np.random.default_rng(0).permutation(labels)


def needs(a, hetero="standard"):
    """Of the fifty users."""
    return [need(user, 50, a, 10, hetero) for user in range(50)]


@pytest.mark.parametrize(
    ("counts", "a", "sizes", "total"),
    [(MNIST_TRAIN, 196, (980, 490), 36_750), (MNIST_TEST, 34, (170, 85), 6_375)],
)
def test_fifty_users_of_mnist(counts, a, sizes, total):
    """Sizes and totals of dependencies-and-data.md A3; every image belongs to one user at most."""
    labels = labels_of(counts)
    found = shares(labels, needs(a), "train")
    assert [len(mine) for mine in found] == [sizes[0]] * 25 + [sizes[1]] * 25
    assert len(np.unique(np.concatenate(found))) == total
    first, last = labels[found[0]], labels[found[49]]
    assert dict(zip(*np.unique(first, return_counts=True), strict=True)) == dict.fromkeys(range(5), a)
    assert dict(zip(*np.unique(last, return_counts=True), strict=True)) == {4: a // 2, 9: 2 * a}


def test_the_second_half_covers_every_pair_once():
    """One class of 0-4 and one of 5-9 each, all 25 pairs: the load on the classes is even."""
    pairs = {tuple(sorted(need(user, 50, 4, 10, "standard"))) for user in range(25, 50)}
    assert pairs == {(low, high) for low in range(5) for high in range(5, 10)}


def test_high_heterogeneity_drops_the_half():
    """The sources' "diff. hetero.": the second half of the users has 2a images of one class, and no other."""
    assert need(30, 50, 68, 10, "high") == {6: 136}
    assert need(3, 50, 68, 10, "high") == dict.fromkeys(range(5), 68)


def test_held_out_users_are_of_both_kinds():
    """They alternate, beginning with the kind of the first half."""
    assert [len(need(user, 50, 4, 10, "standard")) for user in range(50, 54)] == [5, 2, 5, 2]


def test_too_few_images_are_named():
    """The message says which class, how many are needed, and how many there are."""
    with pytest.raises(MissingData, match=r"some set: the users need 5830 images of class 0, there are 5829"):
        shares(labels_of([5829, *MNIST_TRAIN[1:]]), needs(212), "some set")


def test_images_are_taken_in_the_order_of_the_files():
    """The partition is the same in every process, whatever the run's seed."""
    labels = labels_of(MNIST_TEST)
    found = shares(labels, needs(34), "test")
    assert found[0].tolist() == sorted(found[0].tolist())
    assert found[0].tolist() == sorted(
        np.concatenate([np.flatnonzero(labels == label)[:34] for label in range(5)]).tolist()
    )
