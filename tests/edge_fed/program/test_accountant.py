"""The stated privacy: equal to the closed form of the Gaussian mechanism, and refused without the library."""

import math
import subprocess
import sys

import pytest

from edge_fed.config import Agents, Privacy, RunConfig
from edge_fed.program import accountant
from edge_fed.program.exit_codes import ExitCode, ProgramError

UNUSED = """
import agent.learner, agent.secret, server.command_line, scenarios.command_line, scenarios.plain, sys
sys.exit("dp_accounting" in sys.modules)
"""


def noisy(z: float, delta: float = 1e-5) -> Privacy:
    """A section with noise."""
    return Privacy(clip_norm=0.5, noise_multiplier=z, delta=delta)


def analytic(z: float, updates: int, delta: float) -> float:
    """Epsilon of Balle and Wang 2018, theorem 8, by bisection; sensitivity 2 C, noise z C, k updates."""
    mu = 2.0 * math.sqrt(updates) / z

    def excess(epsilon: float) -> float:
        def normal(x: float) -> float:
            return 0.5 * math.erfc(-x / math.sqrt(2.0))

        far = normal(-mu / 2 - epsilon / mu)
        return normal(mu / 2 - epsilon / mu) - (math.exp(epsilon) * far if far else 0.0) - delta

    low, high = 0.0, 1.0
    while excess(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@pytest.mark.parametrize(("z", "updates"), [(0.5, 1), (1.0, 1), (4.0, 1), (20.0, 1), (4.0, 150), (40.0, 150)])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_epsilon_is_that_of_the_analytic_gaussian_mechanism(z: float, updates: int, delta: float) -> None:
    """[complaints 65] One update, and many: exactly one mechanism with less noise."""
    pytest.importorskip("dp_accounting")
    assert accountant.epsilon(noisy(z, delta), updates) == pytest.approx(
        analytic(z, updates, delta), rel=1e-6
    )


def test_epsilon_is_within_the_bound_of_renyi_moments() -> None:
    """A second, independent computation of the library: its bound is never below ours, and not far above."""
    library = pytest.importorskip("dp_accounting")
    from dp_accounting import rdp

    for z, updates in ((2.0, 1), (8.0, 150)):
        moments = rdp.RdpAccountant()
        moments.compose(library.GaussianDpEvent(z / 2), updates)
        bound, ours = moments.get_epsilon(1e-5), accountant.epsilon(noisy(z), updates)
        assert ours <= bound <= 1.15 * ours


def test_epsilon_grows_with_updates_and_falls_with_noise() -> None:
    """0 for an agent that sent nothing."""
    pytest.importorskip("dp_accounting")
    by_updates = [accountant.epsilon(noisy(4.0), k) for k in (0, 1, 2, 10, 150, 10_000)]
    assert by_updates[0] == 0.0 and by_updates == sorted(set(by_updates))
    by_noise = [accountant.epsilon(noisy(z), 10) for z in (8.0, 4.0, 1.0, 0.1)]
    assert by_noise == sorted(set(by_noise))


def test_the_statement_names_the_agent_with_the_most_updates() -> None:
    """Every agent has its own figure; the headline is the worst one's."""
    pytest.importorskip("dp_accounting")
    found = accountant.statement(noisy(4.0), {0: 3, 7: 5, 2: 5})
    assert found is not None
    assert (found["agent"], found["updates"], found["delta"]) == (2, 5, 1e-5)
    assert found["epsilon"] == found["agents"]["7"]["epsilon"] > found["agents"]["0"]["epsilon"]
    line = accountant.line(found)
    assert "agent 2 (5 updates, noise 4 x clip norm 0.5, local model)" in line and "delta 1e-05" in line
    nobody = accountant.statement(noisy(4.0), {})
    assert nobody is not None and (nobody["agent"], nobody["epsilon"]) == (None, 0.0)


def test_without_noise_nothing_is_stated() -> None:
    """Clipping alone guarantees nothing, and needs no library."""
    clipped = RunConfig(privacy=Privacy(clip_norm=1.0))
    accountant.require(clipped)
    assert accountant.statement(clipped.privacy, {0: 5}) is accountant.planned(clipped) is None


def test_a_run_with_noise_is_refused_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that names the pip command."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ProgramError, match="epsilon is missing") as refused:
        accountant.require(RunConfig(privacy=noisy(1.0), agents=(Agents(goals="0"),)))
    assert refused.value.code == ExitCode.USAGE
    assert "pip install 'edge-fed[privacy]'" in refused.value.hint


def test_nothing_loads_the_library_before_there_is_noise() -> None:
    """Server, agent and runner start without it: it takes seconds."""
    assert subprocess.run([sys.executable, "-P", "-c", UNUSED], check=False).returncode == 0
