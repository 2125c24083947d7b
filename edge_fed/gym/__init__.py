"""Our families as Gymnasium environments: ``import edge_fed.gym`` registers them (extra ``gym``).

    import gymnasium
    import edge_fed.gym

    env = gymnasium.make("edge_fed/Navigation-v0", goal=3)

Keyword arguments: ``goal``; ``horizon`` (then ``max_episode_steps = horizon + 1``, too), ``discount`` and
``args`` as in ``[environment]``. The other way round, any Gymnasium environment is a family of ours by
``family = "gymnasium"`` (`edge_fed.envs.gymnasium`).
"""

import gymnasium

from edge_fed.gym.arrays import ArrayEnv

__all__ = ["REGISTERED", "ArrayEnv"]

REGISTERED = {
    "edge_fed/CartPole-v0": ("cartpole", 99),
    "edge_fed/Gridworld-v0": ("gridworld", 15),
    "edge_fed/Navigation-v0": ("navigation", 20),
    "edge_fed/Pendulum-v0": ("pendulum", 49),
    "edge_fed/Thermostats-v0": ("thermostats", 47),
}
"""Id -> family and the H that it has by default; a new family of arrays is one line here."""


def _register() -> None:
    for id_, (family, horizon) in REGISTERED.items():
        gymnasium.register(
            id_,
            entry_point="edge_fed.gym.arrays:ArrayEnv",
            max_episode_steps=horizon + 1,
            kwargs={"family": family, "horizon": horizon},
        )


_register()
