"""One goal's Gymnasium environment: how to make it, and the instances of it that stand ready.

An instance remembers where its episode is, so a batch of m trajectories needs m of them
(`edge_fed.episodes`). They are lent for one rollout and reused: each episode starts with ``reset(seed=...)``,
so no generator outlives it, and which instance plays it changes nothing.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from edge_fed.errors import BadEnvironment
from edge_fed.spaces import Spaces, Units

if TYPE_CHECKING:  # its module imports gymnasium
    from edge_fed.envs.gymnasium.instance import Instance


class EpisodicEnvironment:
    """An MDP that is stepped one episode at a time.

    Args:
        name: For messages: agent, id and arguments.
        horizon: H; an episode has at most H+1 actions.
        discount: gamma.
        make: Makes one more instance.
        reports_success: Whether ``info["is_success"]`` means anything in this family.
        bootstrap: Whether training adds an estimate of what a cut episode would still have paid.
    """

    def __init__(
        self,
        name: str,
        horizon: int,
        discount: float,
        make: Callable[[], "Instance"],
        reports_success: Callable[[], bool],
        bootstrap: bool = False,
    ) -> None:
        self.name = name
        self.horizon = horizon
        self.discount = discount
        self.reports_success = reports_success
        self.bootstrap = bootstrap
        self._make = make
        self._spaces: Spaces | None = None
        self._units = Units()
        self._idle: list[Instance] = []
        self._close = weakref.finalize(self, _close_all, self._idle)

    @property
    def spaces(self) -> Spaces:
        """Observations and actions, those of the first instance, which this makes if there is none yet."""
        if self._spaces is None:
            with self.instances(1) as (instance,):
                return instance.spaces
        return self._spaces

    @property
    def units(self) -> Units:
        """Those of the instance whose `spaces` these are."""
        if self._spaces is None:
            with self.instances(1) as (instance,):
                return instance.units
        return self._units

    def model(self) -> None:
        """None: nobody knows its arrays."""
        return None

    def close(self) -> None:
        """Closes every instance that is not lent; also done when nobody holds the environment any more."""
        while self._idle:
            self._idle.pop().close()

    @contextlib.contextmanager
    def instances(self, count: int) -> Iterator[list["Instance"]]:
        """Lends instances, makes those that are missing; what a failed rollout leaves is closed.

        Raises:
            ValueError: One cannot be made.
            BadEnvironment: Its spaces are not those of the first.
        """
        lent: list[Instance] = []
        try:
            while len(lent) < count:
                lent.append(self._idle.pop() if self._idle else self._made())
            yield lent
        except BaseException:
            _close_all(lent)
            raise
        self._idle.extend(reversed(lent))

    def _made(self) -> "Instance":
        instance = self._make()
        if self._spaces is None:
            self._spaces, self._units = instance.spaces, instance.units
        if instance.spaces != self._spaces:
            instance.close()
            both = f"{self._spaces} and {instance.spaces}"
            raise BadEnvironment(f"{self.name}: two of its instances have different spaces, {both}")
        return instance


def _close_all(instances: list["Instance"]) -> None:
    while instances:
        instances.pop().close()
