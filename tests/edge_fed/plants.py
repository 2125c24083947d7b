"""Plants that remember what was done to them; scenarios name them as ``PLANTS:...``."""

from typing import Any

from tests.edge_fed.gym.toy_envs import Drift

PLANTS = "tests.edge_fed.plants"


class Cart(Drift):
    """A vector that is pushed; counts resets, and keeps every observation.

    Attributes:
        made: All of them, the newest last.
    """

    made: list["Cart"] = []  # noqa: RUF012  of the class, because who makes one hands it to nobody

    def __init__(self, pull: float = 0.1) -> None:
        super().__init__(pull)
        self.resets, self.closed = 0, 0
        self.path: list[Any] = []
        Cart.made.append(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Starts near the origin."""
        self.resets += 1
        found = super().reset(seed=seed)
        self.path.append(found[0])
        return found

    def step(self, action: Any) -> Any:
        """Moves."""
        found = super().step(action)
        self.path.append(found[0])
        return found

    def close(self) -> None:
        """Counts."""
        self.closed += 1


class OnePort(Cart):
    """There is one plant, and one port to it."""

    taken = False

    def __init__(self) -> None:
        if OnePort.taken:
            raise RuntimeError("the port is in use")
        OnePort.taken = True
        super().__init__()

    def close(self) -> None:
        """Lets the port go."""
        OnePort.taken = False
        super().close()
