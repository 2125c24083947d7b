"""Environments: one file per family, one interface, one table of families."""

from edge_fed.config import EnvironmentConfig
from edge_fed.envs.base import Family, MakeFamily
from edge_fed.envs.cartpole import CartPole
from edge_fed.envs.gridworld import Gridworld
from edge_fed.envs.gymnasium import Gymnasium
from edge_fed.envs.navigation import Navigation
from edge_fed.envs.pendulum import Pendulum
from edge_fed.envs.thermostats import Thermostats
from edge_fed.errors import UnknownName
from edge_fed.tables import Table

FAMILIES: Table[MakeFamily] = Table(
    "family",
    {
        "cartpole": CartPole,
        "gridworld": Gridworld,
        "gymnasium": Gymnasium,
        "navigation": Navigation,
        "pendulum": Pendulum,
        "thermostats": Thermostats,
    },
)
"""Name in ``[environment] family`` -> constructor. A new family is one file and one line here."""


def make_family(config: EnvironmentConfig) -> Family:
    """Builds the family that a configuration names.

    Raises:
        UnknownName: No such family; the message names the nearest.
        ValueError: A wrong argument; the message names it.
    """
    if config.family not in FAMILIES:
        raise UnknownName("family", config.family, FAMILIES)
    return FAMILIES[config.family](config.horizon, config.discount, config.args)
