"""The table of relative variances: the measure itself, and the values of the pilot at theta = 0."""

import numpy as np
import pytest

from edge_fed.meta import CURVATURES
from scenarios.curvature_variance import main, markdown, spread, table


def test_spread_of_two_worked_estimates():
    """Mean (2, 0) of (1, 0) and (3, 0): variance 2 and error 1, over ||(1, 0)||^2 and its root."""
    assert spread(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([1.0, 0.0])) == (2.0, 1.0)
    assert spread(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([0.0, 2.0])) == (0.5, 2**0.5)


@pytest.fixture(scope="module")
def rows():
    """1000 trajectories of each of eight agents at theta = 0."""
    return {row.estimator: row for row in table(np.zeros(100), 1000)}


# science.md 2.7, theta = 0; there from 3000 trajectories per agent
PILOT = {"naive": 243, "naive+V": 119, "causal": 146, "causal+V": 55, "lvc": 4.6, "finite_difference": 146}


@pytest.mark.parametrize("name", PILOT)
def test_variance_at_zero_is_the_pilots(name, rows):
    """Within 20 %."""
    assert rows[name].variance == pytest.approx(PILOT[name], rel=0.2)


def test_only_lvc_misses_by_more_than_its_noise(rows):
    """Its error is the pilot's bias of 0.73, ten times what its variance explains."""
    assert len(rows) == 2 * len(CURVATURES)
    noise = {name: (row.variance / 1000) ** 0.5 for name, row in rows.items()}
    assert rows["lvc"].error == pytest.approx(0.73, rel=0.1)
    assert all((row.error > 2 * noise[name]) == name.startswith("lvc") for name, row in rows.items())


def test_table_labels_what_is_biased(rows):
    """Every estimator twice; lvc says that it is biased, the others do not."""
    lines = markdown(list(rows.values())).splitlines()[2:]
    assert [line for line in lines if "(biased)" in line] == [line for line in lines if "lvc" in line]


def test_prints_the_table_at_a_checkpoint(tmp_path):
    """`--params` reads the array of that name."""
    np.savez(tmp_path / "p.npz", params=np.full(100, 0.1))
    printed = []
    assert main(["--params", str(tmp_path / "p.npz"), "--trajectories", "3"], printed.append) == 0
    assert "finite_difference+V" in printed[0]


@pytest.mark.parametrize("what", ["absent", "shape", "few"])
def test_wrong_arguments_are_refused_by_name(what, tmp_path, capsys):
    """A missing file, parameters of another policy, a single trajectory."""
    np.savez(tmp_path / "shape.npz", params=np.zeros(3))
    arguments = ["--trajectories", "1"] if what == "few" else ["--params", str(tmp_path / f"{what}.npz")]
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err
