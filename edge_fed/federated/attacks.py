"""Byzantine agents for experiments: what an agent sends instead of the update that it computed.

    none              the update itself. For the reference of an attack: an agent that is left out of the
                      measures of the honest ones, and yet works honestly
    sign_flip         -scale delta
    noise             scale n, n ~ N(0, I_d): nothing of the update is left
    little_is_enough  mean - scale std, per coordinate, of the honest updates of all agents that attack so:
                      within the spread of honest updates, and the same from each (Baruch et al. 2019, ALIE)

An attack is a key of ``[[agents]]`` and of nothing else: the server refuses an agent that asks for one, no
command line has a flag for it, and server, agent and report name who attacks. It is part of the agent's local
update, drawn from a stream of its own, so that a run with attackers replays as any other.

For `little_is_enough` each attacker computes the honest updates of all its colluders itself: an update
depends on configuration, seed, agent, round and parameters alone. So attackers need no channel of their own,
but no update may depend on agent state, which they could not know of each other (`check` refuses that).
What they sample for their colluders is not counted. Baruch et al. choose scale (their z) from the number
of agents; with so few agents as here theirs is 0, so that it is an argument.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

from edge_fed.config import Attack, Overrides, RunConfig, overrides_by_goal
from edge_fed.params import F8

COLLUDING = "little_is_enough"

Sent = Callable[[float, F8, Sequence[F8], Generator], F8]
"""(scale, own honest update [d], those of all colluders ascending by agent, stream) -> what is sent, [d]."""


def _little_is_enough(scale: float, _delta: F8, colluding: Sequence[F8], _rng: Generator) -> F8:
    updates = np.array(colluding)
    sent: F8 = updates.mean(axis=0) - scale * updates.std(axis=0)
    return sent


ATTACKS: dict[str, Sent] = {
    "none": lambda _scale, delta, _colluding, _rng: delta,
    "sign_flip": lambda scale, delta, _colluding, _rng: -scale * delta,
    "noise": lambda scale, delta, _colluding, rng: scale * rng.standard_normal(delta.size),
    COLLUDING: _little_is_enough,
}
"""The attacks by name. A new one is one line here."""


def attackers(config: RunConfig) -> dict[int, Attack]:
    """The planned agents that attack, ascending, also those whose attack is ``none``."""
    planned = overrides_by_goal(config)
    return {goal: own.attack for goal, own in planned.items() if own.attack is not None}


def colluders(config: RunConfig, overrides: Overrides) -> tuple[int, ...]:
    """The agents whose honest updates an agent with these overrides must know, ascending."""
    if overrides.attack is None or overrides.attack.kind != COLLUDING:
        return ()
    return tuple(goal for goal, attack in attackers(config).items() if attack.kind == COLLUDING)


def described(attack: Attack) -> str:
    """For people, e.g. ``sign_flip, scale 5``."""
    return f"{attack.kind}, scale {attack.scale:g}"
