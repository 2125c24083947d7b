"""The table of data sets, where their files are looked for, and the one that needs none."""

import gc

import numpy as np
import pytest

from edge_fed.datasets import DATASETS, dataset, open_source
from edge_fed.datasets.folder import VARIABLE, folder_of, locate
from edge_fed.errors import MissingData, UnknownName


def test_a_folder_is_found_by_its_name_or_is_the_root_itself(tmp_path):
    """``<root>/mnist`` if there is one."""
    (tmp_path / "mnist").mkdir()
    assert locate(str(tmp_path), "mnist") == tmp_path / "mnist"
    assert locate(str(tmp_path), "cifar10") == tmp_path


def test_an_agent_s_own_folder_comes_first_and_the_run_s_last(monkeypatch):
    """The run's was written on another machine."""
    monkeypatch.setenv(VARIABLE, "/here")
    assert folder_of("/mine", "/of-the-run") == "/mine"
    assert folder_of("", "/of-the-run") == "/here"
    monkeypatch.delenv(VARIABLE)
    assert folder_of("", "/of-the-run") == "/of-the-run"
    assert folder_of("", "") == ""


def test_a_folder_that_is_not_there_is_named(tmp_path):
    """And the variable that would say where it is."""
    with pytest.raises(MissingData, match=f"set {VARIABLE}, or folder in"):
        locate("", "mnist")
    with pytest.raises(MissingData, match=r"nowhere is not there: set EDGE_FED_DATA to one with mnist/"):
        locate(str(tmp_path / "nowhere"), "mnist")


def test_an_unknown_data_set_is_refused():
    """With the nearest name."""
    with pytest.raises(UnknownName, match="did you mean 'mnist'"):
        dataset("mnits")


def test_files_are_shared_while_somebody_needs_them():
    """The same object for the same folder; a new one when nobody has it any more."""
    first = open_source("blobs", "")
    assert open_source("blobs", "") is first
    seen = id(first.rows("train", np.array([0])))
    del first
    gc.collect()
    assert seen
    assert "_examples" not in vars(open_source("blobs", ""))


def test_blobs_are_the_same_everywhere_and_can_be_told_apart():
    """Every process sees the same numbers; the nearest centre of the training part names most test labels."""
    source, again = DATASETS["blobs"].open(""), DATASETS["blobs"].open("")
    labels = {part: source.labels(part) for part in ("train", "test")}
    x = {part: source.rows(part, np.arange(labels[part].size)) for part in labels}
    assert np.array_equal(x["test"], again.rows("test", np.arange(labels["test"].size)))
    assert not set(map(tuple, x["train"])) & set(map(tuple, x["test"]))
    centres = np.stack([x["train"][labels["train"] == c].mean(axis=0) for c in range(10)])
    nearest = ((x["test"][:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels["test"]).mean() > 0.9
    assert x["train"].shape[1] == DATASETS["blobs"].inputs
