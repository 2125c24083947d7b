"""What an environment shows and a policy sees: observations in, an action out."""

import msgspec

from edge_fed.params import F8, I8

States = F8 | I8
"""Observations of m trajectories, ``[m, *observation_shape]``: int64 for tabular, float64 for boxes."""

Actions = F8 | I8
"""Actions of m trajectories: int64 ``[m]`` of a finite set, float64 ``[m, k]`` of a box."""


class Spaces(msgspec.Struct, frozen=True):
    """The interface between an environment and a policy.

    Attributes:
        num_actions: Size of a finite action set; None: actions are a box.
        observation_shape: Shape of one observation; ``()`` for tabular states.
        num_states: Number of states of a tabular environment, else None.
        action_low: Of a box of actions: its lower corner, ``(k,)``; else empty.
        action_high: Its upper corner, ``(k,)``.
        monomials: Features of the value baseline for a box of observations, as in
            `edge_fed.meta.regression.monomials`; empty: those.
    """

    num_actions: int | None
    observation_shape: tuple[int, ...]
    num_states: int | None = None
    action_low: tuple[float, ...] = ()
    action_high: tuple[float, ...] = ()
    monomials: tuple[tuple[int, ...], ...] = ()

    def finite_actions(self, policy: str) -> int:
        """The size of the action set, for a policy that needs one.

        Raises:
            ValueError: Actions are a box.
        """
        if self.num_actions is None:
            raise ValueError(
                f"policy {policy!r} needs a finite set of actions; this family has a box of "
                f"{len(self.action_low)}: use policy 'gaussian'"
            )
        return self.num_actions


class Units(msgspec.Struct, frozen=True):
    """How an environment's own numbers differ from those between it and a policy: by nothing, as a rule.

    Attributes:
        obs_scale: The policy sees observations times it: one number, or one per entry.
        observation_start: Number of the environment's first state, which the policy sees as 0.
        action_start: Number of its first action, which the policy takes as 0.
    """

    obs_scale: float | tuple[float, ...] = 1.0
    observation_start: int = 0
    action_start: int = 0
