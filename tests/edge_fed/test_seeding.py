"""Keyed streams: which key gives which draws."""

import itertools

import numpy as np

from edge_fed.seeding import SERVER, Purpose, stream, streams

WORD = 2**64 - 1


def philox(key: tuple[int, int], counter: tuple[int, ...]) -> list[int]:
    """Philox4x64-10 (Salmon et al. 2011), one block, written from the paper."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (p1 >> 64) ^ c1 ^ k0, p1 & WORD, (p0 >> 64) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & WORD, (k1 + 0xBB67AE8584CAA73B) & WORD
    return [c0, c1, c2, c3]


def raw(*key, count: int = 8) -> list[int]:
    """The first raw words of a stream."""
    return stream(*key).bit_generator.random_raw(count).tolist()


def test_purposes_are_never_renumbered():
    """The numbers are part of the run format: a new purpose is appended, an old one keeps its number."""
    expected = ["INITIAL", "COHORT", "INNER", "OUTER", "CURVATURE", "ADAPT", "EVALUATE", "SCRATCH", "LINK"]
    expected += ["DIAGNOSE", "PLACEBO"]
    assert [(purpose.name, purpose.value) for purpose in Purpose][:11] == list(
        zip(expected, range(11), strict=True)
    )
    assert SERVER == 2**32 - 1


def test_key_and_counter_are_where_the_format_says():
    """Key (seed, agent), counter (block, round, step, purpose), checked against Philox written anew."""
    seed, agent, round_, step = 2**63 - 1, 7, 150, 3
    expected = [
        word for block in (1, 2) for word in philox((seed, agent), (block, round_, step, Purpose.CURVATURE))
    ]
    assert raw(seed, agent, round_, step, Purpose.CURVATURE) == expected


def test_equal_keys_give_equal_draws():
    """A stream made again starts again, whatever was drawn in between."""
    first = stream(5, 1, 2, 3, Purpose.INNER).random(100)
    stream(5, 1, 2, 3, Purpose.OUTER).random(7)
    assert np.array_equal(first, stream(5, 1, 2, 3, Purpose.INNER).random(100))


def test_streams_of_different_keys_are_disjoint():
    """No raw word of 4,000 streams occurs twice: seed, agent, round, step and purpose all separate."""
    keys = itertools.product((0, 1), (0, 1, 5, SERVER), (0, 1, 2, 150), (0, 1, 2, 3, 4), Purpose)
    words = [word for key in keys for word in raw(*key)]
    assert len(words) == 8 * 2 * 4 * 4 * 5 * len(Purpose)
    assert len(set(words)) == len(words)


def test_neighbouring_numbers_do_not_collide():
    """Seed s of agent i + 1 is not seed s + 1 of agent i: seeds are never added up."""
    assert raw(3, 4, 0, 0, Purpose.INNER) != raw(4, 3, 0, 0, Purpose.INNER)
    assert raw(3, 4, 1, 2, Purpose.INNER) != raw(3, 4, 2, 1, Purpose.INNER)


def test_first_draws_differ_between_agents():
    """Identically configured agents of one run do not sample the same trajectories."""
    draws = {float(stream(0, agent, 1, 0, Purpose.INNER).random()) for agent in range(256)}
    assert len(draws) == 256


def test_streams_of_a_step_are_its_purposes():
    """`streams` binds all but the purpose."""
    of_step = streams(9, 2, 30, 4)
    for purpose in Purpose:
        assert np.array_equal(of_step(purpose).random(5), stream(9, 2, 30, 4, purpose).random(5))
