"""Availability, connectivity, completeness, responsiveness, and presets of links."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.config import Agents, Overrides, Responsiveness, RunConfig
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.per_fedavg_pg import full_attendance, per_fedavg_pg
from edge_fed.federated.task import initial_params, make_task
from edge_fed.profiles import (
    HEADER_BYTES,
    HEARTBEAT_BYTES,
    LINK_BOUNDS,
    LOST,
    PRESETS,
    available,
    link_values,
    lost,
    response_s,
    sending_s,
    steps_done,
)
from protocol import messages as m
from protocol.codec import encode
from protocol.link import Link, LinkProfile
from tests.scenarios.tiny import tiny

AGENTS = tuple(range(6))


def config(seed=0, participation=1.0, **words):
    """A run of agents 0 to 3 as they are, and 4 and 5 with these words."""
    run = RunConfig(seed=seed, agents=(Agents(goals="0-3"), Agents(goals="4,5", **words)))
    algorithm = msgspec.structs.replace(run.algorithm, participation=participation)
    return msgspec.structs.replace(run, algorithm=algorithm)


@pytest.mark.parametrize(("word", "drawn"), [("availability", available), ("connectivity", lost)])
def test_chances_are_met(word, drawn):
    """Over 2,000 rounds an agent is there, or its update lost, as often as its chance says (5 sigma)."""
    run = config(**{word: 0.7})
    found = np.array([[agent in drawn(run, k, AGENTS) for agent in AGENTS] for k in range(1, 2001)])
    expected = 0.7 if word == "availability" else 0.3
    assert (found[:, :4] == (word == "availability")).all(), "agents without the word are ideal"
    assert np.abs(found[:, 4:].mean(axis=0) - expected).max() < 5 * math.sqrt(0.21 / 2000)
    assert abs(np.corrcoef(found[:, 4], found[:, 5])[0, 1]) < 5 / math.sqrt(2000)


@given(
    st.integers(0, 99),
    st.integers(1, 50),
    st.floats(0.05, 1),
    st.floats(0.05, 1),
    st.permutations(AGENTS),
    st.sets(st.sampled_from(AGENTS)),
)
def test_nobody_is_moved_by_the_absence_of_another(seed, round_, chance, participation, order, gone):
    """Draws depend on (seed, agent, round) alone; the cohort is of available agents, whatever their order."""
    run = config(seed, participation, availability=chance, connectivity=chance)
    rest = [agent for agent in order if agent not in gone]
    there = set(available(run, round_, AGENTS))
    assert set(available(run, round_, rest)) == there - gone
    assert lost(run, round_, rest) == lost(run, round_, AGENTS) - gone
    asked = round_cohort(run, round_, order)
    assert set(asked) <= there and list(asked) == sorted(asked)
    assert len(asked) == (max(1, math.ceil(participation * len(there) - 1e-9)) if there else 0)


def test_words_have_streams_of_their_own():
    """The same chance for availability and connectivity does not fail in the same rounds."""
    run = config(availability=0.5, connectivity=0.5)
    away = [4 not in available(run, k, AGENTS) for k in range(200)]
    strayed = [4 in lost(run, k, AGENTS) for k in range(200)]
    assert 0.3 < np.mean(np.equal(away, strayed)) < 0.7


@given(st.floats(0.001, 1), st.integers(1, 40), st.integers(0, 9), st.integers(0, 9), st.integers(1, 99))
def test_steps_stay_within_their_bounds(completeness, tau, seed, agent, round_):
    """From ceil(completeness tau) to tau, at least one."""
    steps = steps_done(completeness, tau, seed, agent, round_)
    assert max(1, math.ceil(completeness * tau - 1e-6)) <= steps <= tau


def test_steps_are_uniform():
    """Completeness 0.6 of five steps: 3, 4 and 5 alike (5 sigma); 1.0 is always all."""
    found = [steps_done(0.6, 5, 7, 1, k) for k in range(1, 3001)]
    for steps in (3, 4, 5):
        assert abs(np.mean(np.equal(found, steps)) - 1 / 3) < 5 * math.sqrt(2 / 9 / 3000)
    assert {steps_done(1.0, 5, 7, 1, k) for k in range(1, 50)} == {5}


def test_responses_are_log_normal():
    """Their logarithms have the median's and the spread, per (seed, agent, round); without the word: none."""
    slow = Responsiveness(median_s=2.0, spread=0.5)
    logs = np.log([response_s(slow, 3, 1, k) for k in range(1, 3001)])
    assert abs(logs.mean() - math.log(2.0)) < 5 * 0.5 / math.sqrt(3000)
    assert abs(logs.std() - 0.5) < 5 * 0.5 / math.sqrt(6000)
    assert response_s(slow, 3, 1, 1) == response_s(slow, 3, 1, 1) != response_s(slow, 3, 2, 1)
    assert response_s(Responsiveness(median_s=2.0), 3, 1, 9) == 2.0
    assert response_s(None, 3, 1, 1) == 0.0


def test_a_link_is_its_preset_with_its_own_keys_over_it():
    """`profile` and `link` together; each alone; neither is no emulation."""
    assert link_values(Overrides()) == {}
    assert link_values(Overrides(profile="lte")) == PRESETS["lte"]
    assert link_values(Overrides(profile="lte", link={"loss": 0.5})) == {**PRESETS["lte"], "loss": 0.5}
    assert link_values(Overrides(link={"loss": 0.5})) == {"loss": 0.5}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_links(name):
    """Each names exactly the keys of a link, within the bounds of `check`."""
    assert set(PRESETS[name]) == set(LINK_BOUNDS)
    assert all(low <= PRESETS[name][key] <= high for key, (low, high) in LINK_BOUNDS.items())
    msgspec.convert(PRESETS[name], LinkProfile)


@given(st.integers(0, 10**7), st.floats(1e3, 1e9), st.just(0.0) | st.floats(0, 0.9), st.floats(0, 5))
def test_the_sending_time_is_that_of_the_link(size, bandwidth, loss, latency):
    """What `check` computes is when the emulated link delivers with the luckiest draws."""
    link = {"latency_s": latency, "bandwidth_bps": bandwidth, "loss": loss}
    emulated = Link(msgspec.convert(link, LinkProfile), lambda _key: (0.0, 0.0))
    assert emulated.delivery("up", size, 0.0) == pytest.approx(sending_s(link, size) + latency)


def test_frames_are_as_large_as_check_believes():
    """Headers of THETA, UPDATE and HEARTBEAT, as encoded; a check must not overstate them much."""
    header, none = m.Header(session=bytes(16), seq=1000, committed=100), np.zeros(0)
    update = m.Update(
        round=9, theta_crc32=1 << 31, crc32=1 << 31, trajectories=100, trajectories_spent=10_000
    )
    beat = m.Heartbeat(phase="training", progress=1, round=100)
    messages = (
        (m.Theta(round=9, crc32=1 << 31, deadline_s=60.0), {"params": none}),
        (update, {"delta": none}),
    )
    for message, tensors in messages:
        frames = encode(header, message, tensors)
        size = sum(frame.nbytes if isinstance(frame, memoryview) else len(frame) for frame in frames)
        assert 0.8 * HEADER_BYTES <= size <= 1.4 * HEADER_BYTES
    assert 0.8 * HEARTBEAT_BYTES <= sum(map(len, encode(header, beat))) <= 1.2 * HEARTBEAT_BYTES


def test_an_incomplete_update_is_that_of_fewer_steps():
    """Completeness cuts the local steps, and nothing else; trajectories and steps are counted."""
    run = tiny("completeness = 0.5\n", "algorithm.local_steps=6")
    whole = make_task(run, 0, Overrides())
    partly = make_task(run, 0, Overrides(completeness=0.5))
    params, seen = initial_params(run), set()
    for k in range(1, 9):
        steps = steps_done(0.5, 6, run.seed, 0, k)
        update = local_update(partly, params, initial_state(partly), run.seed, k, lambda _t: None)
        settings = msgspec.structs.replace(whole.settings, local_steps=steps)
        short = msgspec.structs.replace(whole, settings=settings)
        expected = local_update(short, params, initial_state(short), run.seed, k, lambda _t: None)
        assert update.delta.tobytes() == expected.delta.tobytes()
        assert update.metrics["local_steps"] == steps
        assert update.trajectories == expected.trajectories
        assert "local_steps" not in expected.metrics
        seen.add(steps)
    assert len(seen) > 1


def test_received_updates_match_the_seeded_draw():
    """[complaints 45] A loss of 40 % is seen: a round counts those who got through, and says so."""
    run = tiny("connectivity = 0.6\n", "algorithm.rounds=12", "seed=1")
    tasks = {agent: make_task(run, agent, Overrides()) for agent in range(4)}
    total = 0
    for outcome in per_fedavg_pg(run, tasks, initial_params(run), full_attendance(range(4), 12)):
        record, strays = outcome.record, lost(run, outcome.record.round, range(4))
        assert record.missing == dict.fromkeys(strays, LOST)
        if record.outcome == "folded":
            assert {part.agent for part in record.contributors} == set(range(4)) - strays
        else:
            assert len(strays) > 2
        total += len(strays)
    assert 0 < total < 48
