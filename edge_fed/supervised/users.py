"""One user's examples: its own part of the data set, read when it is first used, and nothing else kept."""

import functools
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from edge_fed.datasets import Dataset, dataset, folder_of, open_source
from edge_fed.datasets.base import Indices, Part, Source
from edge_fed.errors import MissingData, UnknownGoal
from edge_fed.supervised.network import Batch
from edge_fed.supervised.output import Array
from edge_fed.supervised.partition import Need, PartitionArgs, need, shares


class User:
    """Examples of one user; frozen but for what it reads.

    Attributes:
        unseen: It is held out: it has test images alone.

    Args:
        family: Of the data set.
        args: Of the partition.
        goal: Which user.
        dtype: Of the examples.
        folder: Its own, if it names one.

    Raises:
        UnknownName: There is no such data set.
        UnknownGoal: There is no such user; the message names the range.
        MissingData: The files are not there. That they are what they should be, the first use finds.
    """

    def __init__(
        self, family: str, args: PartitionArgs, goal: int, dtype: "np.dtype[np.floating]", folder: str = ""
    ) -> None:
        last = args.users + args.held_out - 1
        if not 0 <= goal <= last:
            raise UnknownGoal(f"data set {family!r} has users 0 to {last}, not {goal}")
        self.unseen = goal >= args.users
        self._goal, self._dtype = goal, dtype
        self._needs = {part: needs(family, args, part) for part in ("train", "test")}
        self._source: Source | None = open_source(family, folder_of(folder, args.folder))

    def draw(self, part: Part, count: int, rng: Generator) -> Batch:
        """So many examples, independently of each other (an example may come twice), as from p_i."""
        x, y = self.examples(part)
        chosen = rng.integers(0, y.size, count)
        return x.take(chosen, axis=0), y.take(chosen)

    def examples(self, part: Part) -> Batch:
        """All of the user's examples of a part.

        Raises:
            MissingData: It has none, or the files are wrong.
        """
        found = self._both[part]
        if not found[1].size:
            raise MissingData(f"user {self._goal} has no {part} images")
        return found

    @functools.cached_property
    def _both(self) -> dict[Part, Batch]:
        assert self._source is not None
        parts: tuple[Part, ...] = ("train", "test")
        found = {part: self._read(self._source, part) for part in parts}
        self._source = None  # what all users share is gone with the last of them that reads
        return found

    def _read(self, source: Source, part: Part) -> Batch:
        labels = source.labels(part)
        mine = shares(labels, self._needs[part], f"{source.label}, {part} part")[self._goal]
        return scaled(source.rows(part, mine), self._dtype), labels[mine].astype(np.int64)


def needs(family: str, args: PartitionArgs, part: Part) -> list[Need]:
    """Images per class of every user, held-out ones last; those have no training images."""
    known = dataset(family)
    unit = unit_of(known, args, part)
    everybody = range(args.users + args.held_out)
    wanted = [need(user, args.users, unit, known.classes, args.hetero) for user in everybody]
    return wanted if part == "test" else [*wanted[: args.users], *([{}] * args.held_out)]


def unit_of(known: Dataset, args: PartitionArgs, part: Part) -> int:
    """The unit a of a part's images."""
    own, default = (args.a, known.a) if part == "train" else (args.a_test, known.a_test)
    return default if own is None else own


def scaled(rows: Array, dtype: "np.dtype[np.floating]") -> Array:
    """Pixels divided by 255; other numbers as they are."""
    found: Array = rows.astype(dtype)
    if rows.dtype == np.uint8:
        found /= 255
    return found


def partition_of(family: str, args: PartitionArgs, part: Part) -> tuple[Source, list[Indices]]:
    """The data and the images of every user: for what looks at the partition as a whole."""
    source = open_source(family, folder_of("", args.folder))
    return source, shares(source.labels(part), needs(family, args, part), f"{source.label}, {part} part")


Draw = Callable[[int, Generator], Batch]
"""(number, stream) -> examples; counted."""
