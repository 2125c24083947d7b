"""Thermostats: heat one's rooms to a temperature that the thermostat is not told, at a price.

Description:
    Each agent is a building of two heat stores, air (Ta) and mass (Tm), heated with at most ``power`` kW:

        Ca dTa/dt = 0.7 q + UA (Tout - Ta) + UM (Tm - Ta)
        Cm dTm/dt = 0.3 q + UM (Ta - Tm)

    in kWh/K, kW/K and hours, by six Euler steps per half hour, in which q and Tout stand still. The day has
    its own mean, and Tout = Tday + 4 cos(2 pi (hour - 15) / 24). Set-point, hours of occupancy and what
    energy counts are not observed: they, and the building, are what an agent personalises to.

Action space:
    ``Discrete(5)``: heat q = power a / 4 for half an hour.

Observation space:
    ``Box(-inf, inf, (6,))``: (Ta - 20) / 5, (Tm - 20) / 5, (Tout - 5) / 10 in degrees Celsius, sine and
    cosine of the hour, price. All that the dynamics need follows from it.

Starting state:
    Midnight, Ta ~ U(15, 21), Tm = Ta + U(-1, 1), Tday ~ N(outdoor, 2).

Rewards:
    Of the state BEFORE the action: 1 - 0.75 occ min(1, discomfort / 3) - w price q 0.5 h, where discomfort
    is max(0, abs(Ta - set) - 1) in K, and occ 1 in the ten hours from ``occupied_from``, else 0.

Episode end:
    After H+1 actions; 48 are a day.

Success:
    Mean discomfort of the occupied steps is at most 0.5 K.

Arguments (ranges are [lowest, highest]):
    conductance, exchange: UA and UM, kW/K; default [0.10, 0.25] and [0.8, 0.8].
    air, mass: Ca and Cm, kWh/K; default [1, 2] and [6, 12].
    outdoor: Mean of Tday; default [0, 8].
    set_point: default [18, 23].
    price_weight: w; default [0.05, 0.15].
    evening: Chance of a goal to be occupied from 18:00, else from 7:00; default 0.5.
    power: kW; default 6.
    goals, held_out, seed: as `edge_fed.envs.drawn`; default 16, 8, 0.
"""

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.envs.drawn import DrawnArgs, DrawnFamily, Positive, PositiveRange, Range
from edge_fed.params import B1, F8, I8
from edge_fed.spaces import Spaces, States

NUM_ACTIONS = 5
SLOTS = 48  # half hours of a day
HOURS = 0.5  # of a step
SUBSTEPS = 6
DAY_SWING = 4.0  # K
WARMEST_HOUR = 15.0
DAY_SD = 2.0  # of Tday, K
OCCUPIED_HOURS = 10.0
MORNING, EVENING = 7.0, 18.0
TOLERANCE, WORST = 1.0, 3.0  # K: around the set-point nothing is lost, beyond so much more nothing more
COMFORT = 0.75
SUCCESS_BOUND = 0.5  # K
CENTRES = np.array([20.0, 20.0, 5.0])  # of Ta, Tm and Tout in observations
SCALES = np.array([5.0, 5.0, 10.0])
TO_SLOT = np.array(SLOTS / (2 * np.pi))  # 0-d: a Python scalar is converted at every call


class ThermostatsArgs(DrawnArgs, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments of the family, see the head of this file."""

    conductance: PositiveRange = (0.10, 0.25)
    exchange: PositiveRange = (0.8, 0.8)
    air: PositiveRange = (1.0, 2.0)
    mass: PositiveRange = (6.0, 12.0)
    outdoor: Range = (0.0, 8.0)
    set_point: Range = (18.0, 23.0)
    price_weight: Range = (0.05, 0.15)
    evening: Annotated[float, Meta(ge=0, le=1)] = 0.5
    power: Positive = 6.0


class Thermostats(DrawnFamily[ThermostatsArgs]):
    """The family of all buildings and their people."""

    name = "thermostats"
    kind = ThermostatsArgs
    ranges = ("conductance", "exchange", "air", "mass", "outdoor", "set_point", "price_weight", "hours")

    def build(self, drawn: dict[str, float]) -> "ThermostatsEnvironment":
        """One building."""
        late = drawn.pop("hours") < self.settings.evening
        occupied_from = EVENING if late else MORNING
        return ThermostatsEnvironment(
            **drawn,
            occupied_from=occupied_from,
            power=self.settings.power,
            horizon=self.horizon,
            discount=self.discount,
        )

    def _bounds(self, name: str) -> tuple[float, float]:
        return (0.0, 1.0) if name == "hours" else super()._bounds(name)


class ThermostatsEnvironment:
    """One goal's MDP.

    Args:
        conductance: UA, kW/K.
        exchange: UM, kW/K.
        air: Ca, kWh/K.
        mass: Cm, kWh/K.
        outdoor: Mean of Tday, degrees Celsius.
        set_point: Degrees Celsius.
        price_weight: w.
        occupied_from: Hour.
        power: kW.
        horizon: H; trajectories have H+1 actions.
        discount: gamma.
    """

    def __init__(
        self,
        *,
        conductance: float,
        exchange: float,
        air: float,
        mass: float,
        outdoor: float,
        set_point: float,
        price_weight: float,
        occupied_from: float,
        power: float,
        horizon: int,
        discount: float,
    ) -> None:
        self.horizon = horizon
        self.discount = discount
        self.set_point = set_point
        self.occupied_from = occupied_from
        self.outdoor = outdoor
        self.spaces = Spaces(num_actions=NUM_ACTIONS, observation_shape=(6,))
        heats = power * np.arange(NUM_ACTIONS) / (NUM_ACTIONS - 1)
        hours: F8 = HOURS * np.arange(SLOTS, dtype=np.float64)
        self._energy_cost = price_weight * HOURS * heats  # at price 1
        self._occupied = (hours - occupied_from) % 24 < OCCUPIED_HOURS
        self._from_air, self._from_mass, self._from_outside, heating = _half_hour(
            conductance, exchange, air, mass
        )
        self._heating = np.zeros((NUM_ACTIONS, 6))
        self._heating[:, :2] = heats[:, None] * heating
        # What the clock alone adds to the successors of a slot
        turned, later = 2 * np.pi / 24 * (hours + HOURS), (hours + HOURS) % 24
        swing = _swing(hours + HOURS) - _swing(hours)
        none = np.zeros(SLOTS)
        self._clock = np.stack(
            [none, none, swing / SCALES[2], np.sin(turned), np.cos(turned), price(later)], axis=1
        )
        self._clock[:, :2] += _constant(self._from_air, self._from_mass, self._from_outside)

    def start(self, rng: Generator, m: int) -> F8:
        """Midnight, ``[m, 6]``."""
        air = rng.uniform(15.0, 21.0, m)
        mass = air + rng.uniform(-1.0, 1.0, m)
        day = rng.normal(self.outdoor, DAY_SD, m)
        states = np.empty((m, 6))
        states[:, :3] = (np.stack([air, mass, day + _swing(np.zeros(1))], axis=1) - CENTRES) / SCALES
        states[:, 3:] = 0.0, 1.0, float(price(np.zeros(1))[0])
        return states

    def step(self, states: States, actions: I8, out: States) -> None:
        """Half an hour: ``[m, 6]``, ``[m]`` -> ``out`` ``[m, 6]``.

        The six substeps are one affine map, made beforehand. Written out by columns, because a matrix
        product's bits would depend on m.
        """
        self._clock.take(_slot(states), axis=0, out=out, mode="wrap")
        out += self._heating.take(actions, axis=0, mode="clip")  # "clip" spares the bounds check
        temperatures = out[:, :3]
        temperatures += states[:, 0:1] * self._from_air
        temperatures += states[:, 1:2] * self._from_mass
        temperatures += states[:, 2:3] * self._from_outside

    def rewards(self, states: States, actions: I8) -> F8:
        """``[H+1, m]``; see the head of this file."""
        rewards = self._discomfort(states)
        rewards /= WORST
        np.minimum(rewards, 1.0, out=rewards)
        rewards *= -COMFORT
        rewards += 1.0
        rewards -= self._energy_cost.take(actions) * states[..., 5]
        return rewards

    def success(self, states: States) -> B1:
        """Which days ``[H+1, m, 6]`` had at most 0.5 K of mean discomfort while occupied, ``[m]``."""
        occupied = self._occupied.take(_slot(states), mode="wrap").sum(axis=0)
        comfortable: B1 = self._discomfort(states).sum(axis=0) <= SUCCESS_BOUND * occupied
        return comfortable

    def ended(self, states: States) -> None:  # noqa: ARG002
        """None: days are whole."""
        return None

    def model(self) -> None:
        """None: temperatures are no finite set."""
        return None

    def _discomfort(self, states: States) -> F8:
        """K beyond the tolerance while occupied, else 0, ``[...]``."""
        off: F8 = states[..., 0] * SCALES[0] + (CENTRES[0] - self.set_point)
        np.abs(off, out=off)
        off -= TOLERANCE
        np.maximum(off, 0.0, out=off)
        off *= self._occupied.take(_slot(states), mode="wrap")
        return off


def price(hours: Any) -> F8:
    """Of a kWh at hours of the day: 0.3, from 7:00 0.6, from 17:00 to 21:00 1.0."""
    found: F8 = np.select([(hours >= 17) & (hours < 21), (hours >= 7) & (hours < 17)], [1.0, 0.6], 0.3)
    return found


def _swing(hours: F8) -> F8:
    """Tout - Tday, K."""
    return DAY_SWING * np.cos(2 * np.pi * (hours - WARMEST_HOUR) / 24)


def _slot(states: States) -> I8:
    """Half hours since midnight, from sine and cosine; -24 to 24, modulo 48."""
    angle = np.arctan2(states[..., 3], states[..., 4])
    angle *= TO_SLOT
    return np.rint(angle, out=angle).astype(np.int64)


def _half_hour(conductance: float, exchange: float, air: float, mass: float) -> tuple[F8, F8, F8, F8]:
    """What Ta, Tm, Tout (as observed) and 1 kW add to (Ta, Tm, Tout) as observed, a half hour later.

    Returns:
        Three vectors ``[3]``, and ``[2]`` for heat.
    """
    dt = HOURS / SUBSTEPS
    euler = np.eye(4)  # of (Ta, Tm, Tout, q), the last two constant
    euler[0] += dt / air * np.array([-conductance - exchange, exchange, conductance, 0.7])
    euler[1] += dt / mass * np.array([exchange, -exchange, 0.0, 0.3])
    whole = np.linalg.matrix_power(euler, SUBSTEPS)[:3]
    scaled = whole[:, :3] * SCALES / SCALES[:, None]
    return scaled[:, 0].copy(), scaled[:, 1].copy(), scaled[:, 2].copy(), whole[:2, 3] / SCALES[:2]


def _constant(*columns: F8) -> F8:
    """What the centres of observations add: they are a state at rest only if all are equal, ``[2]``."""
    offsets = CENTRES / SCALES
    found: Any = np.stack(columns, axis=1) @ offsets - offsets
    return found[:2]  # type: ignore[no-any-return]
