"""Keyed random streams: every draw belongs to (run seed, agent, round, local step, purpose).

One Philox key per (run seed, agent); the counter starts at (round, local step, purpose). Two streams
of different keys or counters never overlap: the lowest counter word, which the generator itself
increments, is free for 2**64 blocks of draws. So permuting, parallelising or restarting agents cannot
change a bit, and any round can be replayed alone.
"""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray


class Purpose(enum.IntEnum):
    """What a stream is for. Part of the run format: values are never renumbered."""

    INITIAL = 0
    COHORT = 1
    INNER = 2
    OUTER = 3
    CURVATURE = 4
    ADAPT = 5
    EVALUATE = 6
    SCRATCH = 7
    LINK = 8
    DIAGNOSE = 9
    PLACEBO = 10
    AVAILABILITY = 11
    CONNECTIVITY = 12
    COMPLETENESS = 13
    RESPONSIVENESS = 14
    ATTACK = 15
    GOAL = 16
    TRIAL = 17
    LIFE = 18


Streams = Callable[[Purpose], Generator]

SERVER = 2**32 - 1
"""The agent number of draws that belong to no agent (initial parameters, cohorts)."""


def stream(seed: int, agent: int, round_: int, step: int, purpose: Purpose) -> Generator:
    """Returns the generator of one key; equal keys give equal draws.

    Args:
        seed: Run seed, 0 <= seed < 2**64.
        agent: Agent id, or ``SERVER``.
        round_: Round, 0 for what happens outside rounds.
        step: Local step within the round.
        purpose: What the draws are for.
    """
    key = np.array([seed, agent], dtype=np.uint64)
    counter = np.array([0, round_, step, purpose], dtype=np.uint64)
    bits = np.random.Philox(_Key(key), counter=counter)  # type: ignore[arg-type]  # stubs know one kind
    return Generator(bits)


class _Key(ISeedSequence):
    """Hands Philox its key.

    ``Philox(key=...)`` gives the same stream but first gathers entropy from the operating system and
    throws it away, which makes it three times slower; an agent opens three streams per local step.
    """

    def __init__(self, key: NDArray[np.uint64]) -> None:
        self._key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:  # noqa: ARG002  numpy's signature
        return self._key


def streams(seed: int, agent: int, round_: int, step: int) -> Streams:
    """Returns the streams of one local step, one per purpose."""
    return lambda purpose: stream(seed, agent, round_, step, purpose)
