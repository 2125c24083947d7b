"""Who has which images: the partition of Per-FedAvg's experiments (Fallah et al. 2020; seed 003, Knowl 8).

The first half of the users (A) has ``a`` images of each class of the first half of the classes; the second
half (B) ``a/2`` of ONE class of the first half and ``2a`` of ONE of the second. ``high`` drops the ``a/2``.

What the source leaves open, and what is done here: user j of B has the classes j mod 5 and 5 + (j div 5) mod
5, so that all pairs occur (pairs drawn at random run out of images now and then); images are taken in the
order of the files, each once; test images are split by the same rule with a number of their own, ``a_test``.
Users that never train (``held_out``) follow, alternately of kind A and B; they have test images alone.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from edge_fed.datasets.base import U1, Indices
from edge_fed.errors import MissingData

Need = dict[int, int]
"""Class -> number of images of one user."""


class PartitionArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of ``[dataset]``.

    Attributes:
        users: Training users.
        a: Unit of the training images; None: the data set's.
        a_test: Unit of the test images; None: the data set's.
        hetero: ``high`` is the source's "diff. hetero.".
        held_out: Users that never train.
        folder: Of the files: `edge_fed.datasets.folder.folder_of`.
    """

    users: Annotated[int, Meta(ge=2, le=10_000, multiple_of=2)] = 50
    a: Annotated[int, Meta(ge=2, le=100_000, multiple_of=2)] | None = None
    a_test: Annotated[int, Meta(ge=2, le=100_000, multiple_of=2)] | None = None
    hetero: Literal["standard", "high"] = "standard"
    held_out: Annotated[int, Meta(ge=0, le=10_000)] = 0
    folder: str = ""


def need(user: int, users: int, a: int, classes: int, hetero: str) -> Need:
    """What one user gets of each class.

    Args:
        user: 0 to users - 1 train, those after are held out.
        users: Training users.
        a: Unit.
        classes: Even.
        hetero: ``standard`` or ``high``.
    """
    half = classes // 2
    if user < users:
        kind_a, j = user < users // 2, user - users // 2
    else:
        kind_a, j = (user - users) % 2 == 0, (user - users) // 2
    if kind_a:
        return dict.fromkeys(range(half), a)
    mostly = {half + (j // half) % half: 2 * a}
    return mostly if hetero == "high" else {j % half: a // 2, **mostly}


def shares(labels: U1, needs: list[Need], what: str) -> list[Indices]:
    """The images of each user, ascending; no image goes to two.

    Args:
        labels: Of all images, ``[n]``.
        needs: Of each user.
        what: Name of the images and of their unit, for messages.

    Raises:
        MissingData: There are too few images of a class; the message names the class and both numbers.
    """
    classes = sorted({label for wanted in needs for label in wanted})
    there = {label: np.flatnonzero(labels == label) for label in classes}
    for label in classes:
        total = sum(wanted.get(label, 0) for wanted in needs)
        if total > there[label].size:
            raise MissingData(
                f"{what}: the users need {total} images of class {label}, there are {there[label].size}; "
                "take a smaller unit, or fewer users"
            )
    taken = dict.fromkeys(classes, 0)
    found = []
    for wanted in needs:
        mine = [there[label][taken[label] : taken[label] + count] for label, count in wanted.items()]
        for label, count in wanted.items():
            taken[label] += count
        found.append(np.sort(np.concatenate(mine)) if mine else np.empty(0, np.int64))
    return found
