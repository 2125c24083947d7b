"""What an environment shows and a policy sees: observations in, one of finitely many actions out."""

import msgspec

from edge_fed.params import F8, I8

States = F8 | I8
"""Observations of m trajectories, ``[m, *observation_shape]``: int64 for tabular, float64 for boxes."""


class Spaces(msgspec.Struct, frozen=True):
    """The interface between an environment and a policy.

    Attributes:
        num_actions: Size of the action set.
        observation_shape: Shape of one observation; ``()`` for tabular states.
        num_states: Number of states of a tabular environment, else None.
    """

    num_actions: int
    observation_shape: tuple[int, ...]
    num_states: int | None = None
