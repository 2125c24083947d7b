"""The diversity of the published partitions, measured on the images, beside the bounds of the theorem.

At the initial parameters w: gamma_G measured, sqrt((1/n) sum ||grad f_i - grad f||^2) over the users'
training images, and the bound 2 B TV of the labels (science.md 1.5) with B = the largest gradient of a single
training image at w. The theorem's B bounds every image at every w: no smaller bound can come of it.
"""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edge_fed.config import RunConfig
from edge_fed.datasets import dataset
from edge_fed.errors import ConfigError, Fault
from edge_fed.federated.task import initial_params
from edge_fed.supervised.learner import make_model, partition_args
from edge_fed.supervised.network import Batch, EluNetwork
from edge_fed.supervised.users import partition_of, scaled
from edge_fed.theory.diversity import Distances, distances, gradient_diversity

FILE = "diversity-supervised.json"


class Partition(msgspec.Struct, frozen=True):
    """One partition, measured.

    Attributes:
        data: What the images are.
        users: How many.
        a: Unit of the training images.
        hetero: ``standard`` or ``high``.
        distances: Of labels and pixels.
        gradient: gamma_G at the initial parameters, measured.
        largest: B at the initial parameters, the largest gradient of a single image.
    """

    data: str
    users: int
    a: int
    hetero: str
    distances: Distances
    gradient: float
    largest: float

    @property
    def bound(self) -> float:
        """2 B TV, with the labels' TV."""
        return 2 * self.largest * self.distances.label_tv


def measure(config: RunConfig) -> Partition:
    """Measures the partition of one run; reads its images.

    Raises:
        MissingData: They are not there.
    """
    args, known = partition_args(config.dataset), dataset(config.dataset.family)
    source, mine = partition_of(config.dataset.family, args, "train")
    labels = source.labels("train").astype(np.int64)
    mine = mine[: args.users]  # held-out ones have no training images
    images = [source.rows("train", indices) for indices in mine]
    own = [labels[indices] for indices in mine]
    model, w = make_model(config), initial_params(config)
    batches: list[Batch] = [
        (scaled(rows, np.dtype("float64")), y) for rows, y in zip(images, own, strict=True)
    ]
    return Partition(
        data=source.label,
        users=args.users,
        a=known.a if args.a is None else args.a,
        hetero=args.hetero,
        distances=distances(images, own, known.classes),
        gradient=gradient_diversity([model.gradient(w, batch) for batch in batches]),
        largest=max(_largest(model, w, batch) for batch in batches),
    )


def _largest(model: EluNetwork, w: np.ndarray[tuple[int], np.dtype[np.float64]], batch: Batch) -> float:
    """The largest norm of the gradient of a single example."""
    x, y = batch
    return max(float(np.linalg.norm(model.gradient(w, (x[k : k + 1], y[k : k + 1])))) for k in range(y.size))


def measured(
    configs: list[RunConfig], folder: Path, *, make: bool, told: Callable[[str], None]
) -> list[Partition]:
    """The kept measurements, or new ones.

    Args:
        configs: One run of each partition.
        folder: Of the file that keeps them.
        make: Whether to measure what is not there.
        told: Called before each partition is measured.

    Raises:
        ConfigError: The file is no such file.
    """
    path = folder / FILE
    if path.is_file():
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Partition])
        except msgspec.DecodeError as error:
            raise ConfigError(
                [Fault(str(path), f"holds no measured diversity: {error}")], str(path)
            ) from None
    if not make:
        return []
    found = []
    for config in configs:
        told(f"measuring the partition of {config.dataset.family}")
        found.append(measure(config))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(msgspec.to_builtins(found), indent=1) + "\n", encoding="utf8")
    return found


def rows_of(partitions: list[Partition]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a table for people."""
    heads = ["", *(f"{part.data}, a = {part.a}, {part.hetero}" for part in partitions)]
    lines: list[tuple[str, Callable[[Partition], float]]] = [
        ("TV of labels (also W1, distance 0 or 1)", lambda part: part.distances.label_tv),
        ("TV of intensities, pooled", lambda part: part.distances.pixel_tv),
        ("W1 of intensities, pooled", lambda part: part.distances.pixel_w1),
        ("TV of single pixels, mean", lambda part: part.distances.marginal_tv),
        ("W1 of single pixels, mean", lambda part: part.distances.marginal_w1),
        ("TV of the images themselves", lambda part: part.distances.example_tv),
        ("gamma_G at the start, measured", lambda part: part.gradient),
        ("gamma_G at the start, bound 2 B TV", lambda part: part.bound),
        ("B at the start, measured", lambda part: part.largest),
        (
            "gamma_G / W1 of pixels: L_Z, were that W1",
            lambda part: part.gradient / part.distances.marginal_w1,
        ),
    ]
    return heads, [[name, *(f"{value(part):.4g}" for part in partitions)] for name, value in lines]
