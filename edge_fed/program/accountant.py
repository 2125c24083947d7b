"""The stated privacy of a run: from noise and number of updates to (epsilon, delta), by dp-accounting.

The one file that knows the accountant library, which is an extra and takes seconds to load: it is imported
when a run with private noise is checked, led or reported, and by no agent.

One update is a Gaussian mechanism whose noise is z C against a sensitivity of 2 C (see
`edge_fed.federated.privacy`). k of them, each asked for with knowledge of the ones before, are exactly one
Gaussian mechanism of noise z / (2 sqrt(k)) (Dong, Roth and Su 2022, corollary 3.3), whose epsilon at delta
has a closed form (Balle and Wang 2018, theorem 8). So no accountant for general mechanisms is needed: that of
Renyi moments is looser, and convolving privacy-loss distributions took a minute for 150 updates at z = 0.5.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from edge_fed.config import Privacy, RunConfig, overrides_by_goal
from edge_fed.program.exit_codes import ExitCode, ProgramError

INSTALL = "pip install 'edge-fed[privacy]'"


def require(config: RunConfig) -> None:
    """Makes sure that what a run with private noise promises can be stated; loads the library for it.

    Raises:
        ProgramError: There is noise, and the library is missing.
    """
    if config.privacy.noisy:
        _library()


def epsilon(privacy: Privacy, updates: int) -> float:
    """Epsilon of one agent's data after so many of its updates were seen, at the run's delta.

    Args:
        privacy: The run's section; its noise multiplier is above 0.
        updates: Different updates that left the agent, whatever became of them.

    Raises:
        ProgramError: The library is missing.
    """
    if updates == 0:
        return 0.0
    noise = privacy.noise_multiplier / (2.0 * math.sqrt(updates))
    with np.errstate(all="ignore"):  # its search meets probabilities that round to 0
        return float(_library().get_epsilon_gaussian(noise, privacy.delta))


def statement(privacy: Privacy, updates: Mapping[int, int]) -> dict[str, Any] | None:
    """What a run with private noise says of itself, as plain values; None: it has no noise.

    Args:
        privacy: The run's section.
        updates: Agent -> different updates of it that were seen.

    Returns:
        ``clip_norm``, ``noise_multiplier``, ``delta``; ``epsilon`` of the agent with the most updates,
        ``agent`` (None if there were none) and its ``updates``; ``agents``: of every agent.
    """
    if not privacy.noisy:
        return None
    counts = sorted(set(updates.values()))
    found = {count: epsilon(privacy, count) for count in counts}
    worst = max(sorted(updates), key=lambda agent: updates[agent], default=None)
    return {
        "clip_norm": privacy.clip_norm,
        "noise_multiplier": privacy.noise_multiplier,
        "delta": privacy.delta,
        "epsilon": 0.0 if worst is None else found[updates[worst]],
        "agent": worst,
        "updates": 0 if worst is None else updates[worst],
        "agents": {
            str(agent): {"updates": count, "epsilon": found[count]}
            for agent, count in sorted(updates.items())
        },
    }


def planned(config: RunConfig) -> dict[str, Any] | None:
    """The `statement` for agents of which every round gets an update; None: the run has no noise."""
    return statement(config.privacy, dict.fromkeys(overrides_by_goal(config), config.algorithm.rounds))


def line(found: Mapping[str, Any], who: str = "") -> str:
    """One line for people: what is guaranteed, to whom, and by what noise.

    Args:
        found: A `statement`.
        who: Whose data; empty: those of the agent with the most updates.
    """
    who = who or f"agent {found['agent']}"
    noise = f"noise {found['noise_multiplier']:g} x clip norm {found['clip_norm']:g}"
    guarantee = f"epsilon {found['epsilon']:.3g} at delta {found['delta']:g}"
    return f"{guarantee} for {who} ({found['updates']} updates, {noise}, local model)"


def _library() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise ProgramError(
            ExitCode.USAGE,
            "this run has private noise (privacy.noise_multiplier), and the library that states its epsilon "
            f"is missing: {error}",
            INSTALL,
        ) from error
    return dp_accounting
