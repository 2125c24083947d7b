"""Environments that are wrong in one way each; `tests.edge_fed.gym.test_examine` says what is found."""

import threading

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from tests.edge_fed.gym.toy_envs import Corridor, Drift

MODULE = "tests.edge_fed.gym.broken_envs"


class GlobalDraws(Drift):
    """Moves by draws of a generator that no seed reaches."""

    def step(self, action):
        """Jitters."""
        self.at = (self.at + 0.01 * np.random.default_rng().normal(size=2)).astype(np.float32)
        return super().step(action)


class OwnGenerator(Drift):
    """Keeps a generator of its own, seeded once and for all."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)

    def step(self, action):
        """Jitters."""
        self.at = (self.at + 0.01 * self.rng.normal(size=2)).astype(np.float32)
        return super().step(action)


class Wearing(Drift):
    """A motor that wears from episode to episode."""

    def reset(self, *, seed=None, options=None):
        """Wears."""
        self.pull *= 0.5
        return super().reset(seed=seed)


class Shared(Drift):
    """Keeps its position in the class."""

    where = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        """Starts."""
        observation, info = super().reset(seed=seed)
        Shared.where = self.at
        return observation, info

    def step(self, action):
        """Moves whoever was moved last."""
        self.at = Shared.where
        found = super().step(action)
        Shared.where = self.at
        return found


class Unit(Drift):
    """Pays in the wrong unit."""

    def step(self, action):
        """In cents."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 1e6 * reward, terminated, truncated, info


class Flat(Drift):
    """Pays nothing."""

    def step(self, action):
        """For nothing."""
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 0.0, terminated, truncated, info


class Short(Corridor):
    """Is over at once."""

    def step(self, action):
        """The end."""
        observation, reward, _, _, info = super().step(action)
        return observation, reward, True, False, info


class Threaded(Corridor):
    """Leaves a thread behind; `stop` ends all of them."""

    stop = threading.Event()

    def reset(self, *, seed=None, options=None):
        """Starts it once."""
        if not any(thread.name == "left-behind" for thread in threading.enumerate()):
            threading.Thread(target=self.stop.wait, name="left-behind", daemon=True).start()
        return super().reset(seed=seed)


class Loud(Corridor):
    """Prints."""

    def reset(self, *, seed=None, options=None):
        """Shouts."""
        print("starting the plant")
        return super().reset(seed=seed)


class Seen(Drift):
    """Offers observations of another kind."""

    def __init__(self, kind: str = "Dict") -> None:
        super().__init__()
        box = Box(-1, 1, (2,))
        self.observation_space = {
            "Dict": Dict(at=box),
            "Tuple": Tuple([box]),
            "MultiDiscrete": MultiDiscrete([2, 3]),
            "none": Box(-1, 1, (0,)),
            "many": Discrete(10**6 + 1),
        }[kind]


class Done(Drift):
    """Wants actions of another kind."""

    def __init__(self, kind: str = "Dict") -> None:
        super().__init__()
        self.action_space = {
            "Dict": Dict(push=Box(-1, 1, (2,))),
            "MultiDiscrete": MultiDiscrete([2, 3]),
            "unbounded": Box(-np.inf, np.inf, (2,)),
            "integers": Box(0, 5, (2,), np.int64),
            "wide": Box(-1.7e308, 1.7e308, (2,), np.float64),
            "none": Box(-1, 1, (0,)),
            "many": Discrete(10**12),
            "most": Discrete(10**6),
        }[kind]


class Sized(Drift):
    """As many entries as its argument says."""

    def __init__(self, entries: int = 2) -> None:
        super().__init__()
        self.observation_space = Box(-10, 10, (entries,), np.float32)
        self.entries = entries

    def reset(self, *, seed=None, options=None):
        """Starts."""
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action):
        """Moves."""
        _, *rest = super().step(action)
        return self._seen(), *rest

    def _seen(self):
        return np.resize(self.at, self.entries)


class Reused(Drift):
    """Has a method that Gymnasium has given up."""

    def seed(self, seed):
        """Of old."""


class Bare(gymnasium.Env):
    """Without spaces."""


def make_vector():
    """A VectorEnv."""
    return gymnasium.make_vec("CartPole-v1", num_envs=2)


def make_text():
    """No environment at all."""
    return "CartPole-v1"


def make_hot():
    """Fails."""
    raise OSError("no such port")


class Exits(Drift):
    """Calls ``sys.exit``, as a script does that finds no plant, and once more when it is closed."""

    def __init__(self, where: str = "__init__") -> None:
        super().__init__()
        self.where = where
        if where == "__init__":
            raise SystemExit(3)

    def reset(self, *, seed=None, options=None):
        """Starts, or exits."""
        if self.where == "reset":
            raise SystemExit(4)
        return super().reset(seed=seed)

    def close(self):
        """Exits."""
        raise SystemExit(5)


class Interrupted(Drift):
    """Stands in for a user who presses Ctrl-C in the middle of a step."""

    def step(self, action):
        """Is interrupted."""
        raise KeyboardInterrupt


def make_wrapped():
    """Right, with a wrapper of Gymnasium's."""
    return gymnasium.wrappers.RescaleObservation(Drift(), np.float32(-1), np.float32(1))


class Half(gymnasium.Wrapper):
    """Right, as a user writes a wrapper."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action):
        """Pays by the angle, which differs from episode to episode."""
        observation, _, *rest = self.env.step(action)
        return observation, -float(abs(observation[2])), *rest


def make_moody():
    """Another number of entries each time."""
    MOODS.append(len(MOODS) + 1)
    return Sized(MOODS[-1])


MOODS: list[int] = []
