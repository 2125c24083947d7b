"""Agents that send something else than they computed: by hand, replayable, and never by accident."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Attack, Overrides, RunConfig, overrides_by_goal
from edge_fed.federated.attacks import ATTACKS, attackers, described
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.per_fedavg_pg import full_attendance, per_fedavg_pg
from edge_fed.federated.replay import replay
from edge_fed.federated.task import initial_params, make_task
from edge_fed.params import F8, crc32
from edge_fed.program.config_file import load
from edge_fed.seeding import Purpose, stream
from edge_fed.validation import check_run
from tests.edge_fed.federated.runs import gridworld
from tests.edge_fed.gym.toy_envs import MODULE

RNG = np.random.default_rng(0)


def attacked(kind: str, scale: float = 2.0, agents: str = "2-3", **algorithm: object) -> RunConfig:
    """Agents 0 and 1 are honest, the others attack."""
    config = gridworld(agents="0-3", rounds=3, local_steps=2, **algorithm)
    honest, *_ = config.agents
    attack = Attack(kind=kind, scale=scale)
    tables = (
        msgspec.structs.replace(honest, goals="0-1"),
        msgspec.structs.replace(honest, goals=agents, attack=attack),
    )
    return msgspec.structs.replace(config, agents=tables)


def sent(config: RunConfig, agent: int, round_: int = 1) -> F8:
    """What this agent sends in a round from the initial parameters."""
    task = make_task(config, agent, overrides_by_goal(config)[agent])
    params = initial_params(config)
    return local_update(task, params, initial_state(task), config.seed, round_, lambda _t: None).delta


def honest(config: RunConfig, agent: int) -> F8:
    """What it would send without its attack."""
    task = make_task(config, agent, Overrides())
    return local_update(
        task, initial_params(config), initial_state(task), config.seed, 1, lambda _t: None
    ).delta


def test_attacks_worked_by_hand() -> None:
    """Two coordinates, two colluders."""
    own, other = np.array([1.0, -2.0]), np.array([3.0, -2.0])
    assert ATTACKS["none"](7.0, own, (), RNG).tolist() == [1.0, -2.0]
    assert ATTACKS["sign_flip"](3.0, own, (), RNG).tolist() == [-3.0, 6.0]
    assert ATTACKS["little_is_enough"](1.5, own, [own, other], RNG).tolist() == [2.0 - 1.5, -2.0]
    noise = ATTACKS["noise"](10.0, np.zeros(20_000), (), np.random.default_rng(1))
    assert noise.std() == pytest.approx(10.0, rel=0.02)


def test_an_attack_changes_what_is_sent_and_nothing_else() -> None:
    """The honest update is computed first, the attack is applied at one place."""
    for agent in (2, 3):
        assert (
            sent(attacked("sign_flip"), agent).tolist() == (-2.0 * honest(attacked("none"), agent)).tolist()
        )
        assert sent(attacked("none"), agent).tolist() == honest(attacked("none"), agent).tolist()
    assert sent(attacked("noise"), 0).tolist() == honest(attacked("none"), 0).tolist()


def test_noise_comes_from_a_stream_of_its_own() -> None:
    """Of (seed, agent, round): other agents and rounds draw other noise, a replay the same."""
    config = attacked("noise")
    expected = 2.0 * stream(config.seed, 2, 1, 0, Purpose.ATTACK).standard_normal(100)
    assert sent(config, 2).tolist() == expected.tolist()
    assert sent(config, 2).tolist() != sent(config, 3).tolist()
    assert sent(config, 2).tolist() != sent(config, 2, round_=2).tolist()


def test_little_is_enough_knows_the_honest_updates_of_its_colluders() -> None:
    """Each attacker computes mean - z std over all of them, and all send the same bits."""
    config = attacked("little_is_enough", 1.5)
    updates = np.array([honest(config, 2), honest(config, 3)])
    expected = updates.mean(axis=0) - 1.5 * updates.std(axis=0)
    assert sent(config, 2).tobytes() == expected.tobytes()
    assert sent(config, 3).tobytes() == expected.tobytes()


def test_what_is_sampled_for_colluders_is_not_counted() -> None:
    """The trajectories of an update are those of the agent's own work."""
    config = attacked("little_is_enough")
    task = make_task(config, 2, overrides_by_goal(config)[2])
    update = local_update(task, initial_params(config), {}, 0, 1, lambda _t: None)
    assert update.trajectories == task.sample.trajectories == 2 * 20


@pytest.mark.parametrize("kind", sorted(ATTACKS))
def test_a_run_with_attackers_replays(kind: str) -> None:
    """The records of the plain loop are computed again to the same bits; without the attack they are not."""
    config = attacked(kind, rule="trimmed_mean")
    tasks = {goal: make_task(config, goal, own) for goal, own in overrides_by_goal(config).items()}
    rounds = per_fedavg_pg(config, tasks, initial_params(config), full_attendance(range(4), 3))
    records = [outcome.record for outcome in rounds]
    assert [r.differences for r in replay(config, records)] == [()] * 3
    assert records[0].contributors[2].crc32 == crc32(sent(config, 2))
    claimed = next(replay(attacked("none", rule="trimmed_mean"), records))
    assert bool(claimed.differences) == (kind != "none")


def test_attackers_have_names() -> None:
    """For log, report and studies."""
    found = attackers(attacked("noise", 5.0))
    assert {agent: described(attack) for agent, attack in found.items()} == {
        2: "noise, scale 5",
        3: "noise, scale 5",
    }
    assert attackers(RunConfig()) == {}


GRID = "[environment]\nfamily = 'gridworld'\n[policy]\nname = 'softmax'\n[[agents]]\ngoals = '0-3'\n"


@pytest.mark.parametrize(
    ("text", "path", "part"),
    [
        ("[[agents]]\ngoals='4-5'\nattack={kind='sing_flip'}", "agents.1.attack.kind", "'sign_flip'?"),
        ("[[agents]]\ngoals='4'\nattack={kind='little_is_enough'}", "agents.1.attack.kind", "a single agent"),
        (
            "[[agents]]\ngoals='4-5'\nattack={kind='little_is_enough'}\n[algorithm]\nbaseline='value'",
            "agents.1.attack.kind",
            "with baseline 'value' updates depend on agent state",
        ),
        (
            "[[agents]]\ngoals='4-5'\nattack={kind='little_is_enough'}\n[algorithm]\ncorrection='control_variate'",
            "agents.1.attack.kind",
            "with correction 'control_variate'",
        ),
        (
            "[[agents]]\ngoals='4'\nattack={kind='noise'}\n[privacy]\nclip_norm=1.0",
            "agents.1.attack",
            "clipped_mean",
        ),
    ],
)  # fmt: skip
def test_attacks_that_cannot_be_carried_out_are_refused(text: str, path: str, part: str) -> None:
    """Each fault names the key and the way out."""
    config = load(GRID + text, RunConfig, lambda _config: [])
    (fault,) = check_run(config)
    assert fault.path == path
    assert part in str(fault)


def test_colluders_do_not_know_what_others_have_learned_of_cuts() -> None:
    """A bootstrap is agent state as a learned baseline is, wherever it is asked for."""
    gym = f"args={{id='{MODULE}:Corridor',goals=6,held_out=0%s}}\n[policy]\nname='softmax'\n"
    text = "[environment]\nfamily='gymnasium'\n" + gym + "[[agents]]\ngoals='0-3'\n"
    attack = "[[agents]]\ngoals='4-5'\nattack={kind='little_is_enough'}\n%s"
    none = load(text % "" + attack % "", RunConfig, lambda _config: [])
    assert check_run(none) == []
    for run, own in ((",bootstrap='value'", ""), ("", "args={bootstrap='value'}\n")):
        config = load(text % run + attack % own, RunConfig, lambda _config: [])
        (fault,) = check_run(config)
        assert fault.path == "agents.1.attack.kind" and "with bootstrap 'value' updates depend" in str(fault)


def test_somebody_must_be_honest() -> None:
    """A run of attackers alone measures nothing."""
    config = load(GRID + "attack={kind='noise'}", RunConfig, lambda _config: [])
    assert [fault.message for fault in check_run(config)] == ["everybody attacks"]


def test_nobody_attacks_unless_a_table_says_so_in_full() -> None:
    """There is no default kind."""
    assert Overrides().attack is None
    assert all(own.attack is None for own in overrides_by_goal(RunConfig()).values())
    with pytest.raises(msgspec.ValidationError, match="kind"):
        msgspec.convert({"scale": 2.0}, Attack)
