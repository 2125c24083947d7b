"""The measured diversity of a partition: computed once, kept, printed beside the bound."""

import numpy as np
import pytest

from edge_fed.datasets.base import Source
from edge_fed.errors import ConfigError
from scenarios.paper.diversity import FILE, measure, measured, rows_of
from tests.edge_fed.supervised.cases import small


class Pixels:
    """Blobs as bytes, so that they have intensities."""

    label = "pixels"

    def __init__(self, source: Source) -> None:
        self._source = source

    def labels(self, part):
        """As they are."""
        return self._source.labels(part)

    def rows(self, part, indices):
        """Scaled into a byte."""
        return np.clip(127 + 30 * self._source.rows(part, indices), 0, 255).astype(np.uint8)


@pytest.fixture
def pixels(monkeypatch):
    """The data set of the small run, as images."""
    from edge_fed.datasets import open_source

    source = Pixels(open_source("blobs", ""))
    monkeypatch.setattr("edge_fed.supervised.users.open_source", lambda _family, _folder: source)


def test_a_partition_is_measured(pixels):
    """TV of labels by hand, a measured gamma_G below its bound, images that nobody shares."""
    found = measure(small())
    assert (found.data, found.users, found.a, found.hetero) == ("pixels", 4, 8, "standard")
    assert found.distances.example_tv == 0.75
    p = np.array([0.5 / 5 + 0.05, 0.5 / 5 + 0.05, 0.1, 0.1, 0.1, 0.4, 0, 0, 0, 0])
    first = 0.5 * np.abs(np.r_[np.full(5, 0.2), np.zeros(5)] - p).sum()
    second = 0.5 * np.abs(np.r_[0.2, np.zeros(4), 0.8, np.zeros(4)] - p).sum()
    assert found.distances.label_tv == pytest.approx(np.sqrt((first**2 + second**2) / 2))
    assert 0 < found.gradient < found.bound
    assert 0 < found.distances.marginal_w1 < found.distances.marginal_tv < 1


def test_it_is_measured_once_and_kept(pixels, tmp_path):
    """The second time nothing is computed; without permission to measure, nothing is."""
    told = []
    assert measured([small()], tmp_path, make=False, told=told.append) == []
    first = measured([small()], tmp_path, make=True, told=told.append)
    assert measured([small()], tmp_path, make=True, told=told.append) == first
    assert told == ["measuring the partition of blobs"]
    heads, rows = rows_of(first)
    assert heads == ["", "pixels, a = 8, standard"]
    assert [row[0] for row in rows[6:8]] == [
        "gamma_G at the start, measured",
        "gamma_G at the start, bound 2 B TV",
    ]


def test_a_damaged_file_is_named(tmp_path):
    """It is not overwritten."""
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(ConfigError, match="holds no measured diversity"):
        measured([], tmp_path, make=True, told=print)
