"""Environments as a user writes them, right and wrong; scenarios name them as ``MODULE:...``."""

import asyncio

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

MODULE = "tests.edge_fed.gym.toy_envs"
CELLS, SLIP = 4, 0.25


class Corridor(gymnasium.Env):
    """Cells 5, 6, 7, 8, numbered from 5 as its space says; the last one ends the episode.

    Action 3 goes right and slips to no move in a quarter of the cases, action 2 goes left. A step's reward is
    that of the cell before it: 0.5, 1.5, 2.5 times ``gain``.
    """

    def __init__(self, gain: float = 1.0, limit: int = 10**9) -> None:
        self.observation_space = Discrete(CELLS, start=5)
        self.action_space = Discrete(2, start=2)
        self.gain, self.limit = gain, limit
        self.over, self.closed, self.steps = True, 0, 0

    def reset(self, *, seed=None, options=None):
        """Starts in one of the first cells."""
        super().reset(seed=seed)
        self.cell, self.over, self.taken = int(self.np_random.integers(CELLS - 1)), False, 0
        return self.cell + 5, {}

    def step(self, action):
        """Moves."""
        assert not self.over, "an episode that is over was stepped"
        assert self.action_space.contains(action)
        reward = self.gain * (self.cell + 0.5)
        if action == 2:
            self.cell = max(self.cell - 1, 0)
        elif self.np_random.random() >= SLIP:
            self.cell += 1
        self.taken += 1
        self.steps += 1
        terminated, truncated = self.cell == CELLS - 1, self.taken >= self.limit
        self.over = terminated or truncated
        return self.cell + 5, reward, terminated, truncated, {"is_success": terminated}

    def close(self):
        """Counts."""
        self.closed += 1


class Steps(gymnasium.Env):
    """Shows the number of steps taken, at most ``cells - 1``; each pays 1.

    Ends after ``end`` steps, and is cut after ``limit``.
    """

    def __init__(self, cells: int = 12, end: int = 10**9, limit: int = 10**9) -> None:
        self.observation_space, self.action_space = Discrete(cells), Discrete(2)
        self.cells, self.end, self.limit = cells, end, limit

    def reset(self, *, seed=None, options=None):
        """Starts at 0."""
        super().reset(seed=seed)
        self.taken = 0
        return 0, {}

    def step(self, action):
        """Counts."""
        self.taken += 1
        here = min(self.taken, self.cells - 1)
        return here, 1.0, self.taken >= self.end, self.taken >= self.limit, {}


class Drift(gymnasium.Env):
    """A float32 vector pushed by a box action ``[2, 1]``; rewards are minus its squared length."""

    def __init__(self, pull: float = 0.1) -> None:
        self.observation_space = Box(-10, 10, (2,), np.float32)
        self.action_space = Box(np.float32([[-1], [-2]]), np.float32([[1], [2]]))
        self.pull = pull
        self.actions = []

    def reset(self, *, seed=None, options=None):
        """Starts near the origin."""
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.at.copy(), {}

    def step(self, action):
        """Moves and remembers the action."""
        assert self.action_space.contains(action), action
        self.actions.append(action)
        reward = -float(self.at @ self.at)
        self.at = np.clip(self.at + self.pull * action[:, 0], -10, 10).astype(np.float32)
        return self.at.copy(), reward, False, False, {}


class Flicker(Drift):
    """Reports success at its third step alone."""

    def reset(self, *, seed=None, options=None):
        """Starts."""
        self.taken = 0
        return super().reset(seed=seed)

    def step(self, action):
        """Counts."""
        *found, info = super().step(action)
        self.taken += 1
        return *found, info | {"is_success": self.taken == 3}


class Broken(Drift):
    """Wrong in one way, from its fourth step on."""

    def __init__(self, fault: str = "none") -> None:
        super().__init__()
        self.fault = fault
        self.taken = 0

    def reset(self, *, seed=None, options=None):
        """Starts."""
        self.taken = 0
        return super().reset(seed=seed)

    def step(self, action):
        """Goes wrong."""
        observation, reward, terminated, truncated, info = super().step(action)
        self.taken += 1
        if self.taken < 4:
            return observation, reward, terminated, truncated, info
        match self.fault:
            case "observation is NaN":
                observation = observation * np.nan
            case "observation has another shape":
                observation = observation[:1]
            case "observation is text":
                observation = np.array(["a", "b"])
            case "reward is NaN":
                reward = float("nan")
            case "reward is an array":
                reward = np.array([reward])
            case "info is None":
                info = None
            case "four values":
                return observation, reward, terminated, info
            case "terminated is text":
                terminated = "False"
            case "truncated is an array":
                truncated = np.array([True, False])
            case "success is an array":
                info = {"is_success": np.array([True, False])}
            case "success is a distance":
                info = {"is_success": 0.3}
            case "exits":
                raise SystemExit(0)
            case "is cancelled":
                raise asyncio.CancelledError("gone")
            case "fails twice":
                raise BaseExceptionGroup("both", [GeneratorExit(), ValueError()])
            case "pays an int of 400 digits":
                reward = 10**400
            case "ends a generator":
                raise GeneratorExit
            case "raises":
                raise RuntimeError("the motor is hot")
        return observation, reward, terminated, truncated, info


def make_corridor(**kwargs):
    """A factory."""
    return Corridor(**kwargs)


class Slow(Corridor):
    """Takes 3 s of a clock to be made."""

    clock = 0.0

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__(gain)
        Slow.clock += 3.0


class Runaway(gymnasium.Env):
    """A number that grows by a tenth in each step, wherever it is pushed; rewards lie in [-1, 1]."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (1,), np.float64)
        self.action_space = Discrete(3)

    def reset(self, *, seed=None, options=None):
        """Starts near 0."""
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 1)
        return self.at.copy(), {}

    def step(self, action):
        """Pays for where it stood."""
        reward = float(np.cos(3 * self.at[0]))
        self.at = 1.1 * self.at + 0.1 * (int(action) - 1)
        return self.at.copy(), reward, False, False, {}
