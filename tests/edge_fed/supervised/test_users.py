"""A user keeps its own images, in the model's arithmetic, and reads nothing before they are used."""

import gc
import weakref

import numpy as np
import pytest

from edge_fed import datasets
from edge_fed.errors import MissingData
from edge_fed.supervised.partition import PartitionArgs
from edge_fed.supervised.users import User, partition_of, scaled
from tests.edge_fed.supervised.cases import learner

ARGS = PartitionArgs(users=4, a=8, a_test=8, held_out=2)


class Watched:
    """Ten images of each class; says how often it was read."""

    label = "watched"

    def __init__(self):
        self.read = 0

    def labels(self, part):
        """A few hundred."""
        return np.tile(np.arange(10, dtype=np.uint8), 50)

    def rows(self, part, indices):
        """Each image holds its own number."""
        self.read += 1
        return np.repeat(indices[:, None] % 256, 12, axis=1).astype(np.uint8)


@pytest.fixture
def watched(monkeypatch):
    """The source that every user opens."""
    source = Watched()
    monkeypatch.setattr("edge_fed.supervised.users.open_source", lambda _family, _folder: source)
    return source


def test_nothing_is_read_before_it_is_used(watched):
    """Making fifty users reads no image; the first draw reads its user's."""
    users = [User("blobs", ARGS, goal, np.dtype("float64")) for goal in range(6)]
    assert watched.read == 0
    users[0].draw("train", 3, np.random.default_rng(0))
    assert watched.read == 2, "the user's training and test part"
    users[0].draw("train", 3, np.random.default_rng(0))
    assert watched.read == 2


def test_what_is_shared_goes_with_its_last_reader():
    """While a user waits to read, all share one source; afterwards its memory is free."""
    users = [User("blobs", ARGS, goal, np.dtype("float64")) for goal in range(2)]
    shared = weakref.ref(datasets.open_source("blobs", ""))
    assert shared() is not None
    users[0].examples("train")
    gc.collect()
    assert shared() is not None
    users[1].examples("train")
    gc.collect()
    assert shared() is None


def test_users_share_no_image(watched):
    """Also of one class: the training images of all users are distinct."""
    _, mine = partition_of("blobs", ARGS, "train")
    together = np.concatenate(mine)
    assert len(set(together.tolist())) == together.size
    assert [part.size for part in mine] == [40, 40, 20, 20, 0, 0]


def test_pixels_are_divided_by_255_and_numbers_are_not():
    """In the model's dtype."""
    found = scaled(np.array([[0, 51, 255]], np.uint8), np.dtype("float32"))
    assert found.dtype == np.float32
    assert found.tolist() == [[0.0, pytest.approx(0.2), 1.0]]
    assert scaled(np.array([[2.5]]), np.dtype("float64")).tolist() == [[2.5]]


def test_an_unseen_user_has_test_images_alone():
    """It took part in no training, so it has no training part to adapt from."""
    user = learner(4).user
    assert user.unseen
    assert user.examples("test")[1].size == 40
    with pytest.raises(MissingData, match="user 4 has no train images"):
        user.examples("train")


def test_draws_are_independent_and_from_the_user_alone(watched):
    """With replacement: more draws than images, and every class drawn is one of the user's."""
    user = User("blobs", ARGS, 2, np.dtype("float64"))
    x, y = user.draw("train", 500, np.random.default_rng(0))
    assert x.shape == (500, 12)
    assert set(y.tolist()) == {0, 5}
    assert np.mean(y == 5) == pytest.approx(0.8, abs=0.06)
