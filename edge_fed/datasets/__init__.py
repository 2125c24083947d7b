"""Labelled data sets: file readers and one made of numbers. The only room of the tasks that touches files.

One file per format, one line in `DATASETS`. Nothing is read before it is asked for, no pickle is ever opened
(so the "python version" of CIFAR-10 is not read, its "binary version" is), and no file is fetched.
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

import msgspec

from edge_fed.datasets.base import Source
from edge_fed.datasets.blobs import Blobs
from edge_fed.datasets.cifar import CifarBinary
from edge_fed.datasets.cifar_jpeg import CifarJpeg
from edge_fed.datasets.folder import folder_of, locate
from edge_fed.datasets.idx import Idx
from edge_fed.errors import UnknownName

__all__ = ["DATASETS", "Dataset", "dataset", "folder_of", "open_source"]


class Dataset(msgspec.Struct, frozen=True):
    """What is known of a data set without its files: all that a server needs.

    Attributes:
        inputs: Numbers per example.
        classes: Labels are 0 to classes - 1.
        a: Training images of the partition's unit, unless the run says another (seed 003, Knowl 8).
        a_test: The same of test images: the largest even number that fits 50 users.
        open: From a folder (empty: none was named) to the data; reads nothing yet.
    """

    inputs: int
    classes: int
    a: int
    a_test: int
    open: Callable[[str], Source]


DATASETS: dict[str, Dataset] = {
    "blobs": Dataset(12, 10, 8, 4, lambda _folder: Blobs(12, 10)),
    "mnist": Dataset(784, 10, 196, 34, lambda folder: Idx(locate(folder, "mnist"), only_mnist=True)),
    "idx": Dataset(784, 10, 196, 34, lambda folder: Idx(locate(folder, "idx"), only_mnist=False)),
    "cifar10": Dataset(3072, 10, 68, 36, lambda folder: CifarBinary(locate(folder, "cifar10"))),
    "cifar10-jpeg": Dataset(3072, 10, 68, 36, lambda folder: CifarJpeg(locate(folder, "cifar10"))),
}
"""The table of ``[dataset] family``. ``idx`` takes any four files of 28 x 28 images, Fashion-MNIST say."""

_opened: "WeakValueDictionary[tuple[str, str], Source]" = WeakValueDictionary()


def dataset(family: str) -> Dataset:
    """The facts about a data set.

    Raises:
        UnknownName: There is none of this name.
    """
    if family not in DATASETS:
        raise UnknownName("data set", family, DATASETS)
    return DATASETS[family]


def open_source(family: str, folder: str) -> Source:
    """The data; whoever holds the same family and folder at the same time shares them.

    The 50 users of a plain loop so decompress one file once; an agent lets go of it when it has taken its
    own user's images, and with that the memory is free.

    Raises:
        MissingData: The folder or a file in it is not there; the message says where it was looked for.
    """
    found = _opened.get((family, folder))
    if found is None:
        found = _opened[family, folder] = dataset(family).open(folder)
    return found
