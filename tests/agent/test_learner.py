"""The learner computes what the mathematics says, and advances agent state by the commit rule."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent import events as e
from agent.learner import Learner, StateMissing
from agent.state_store import StateStore
from edge_fed.config import (
    Agents,
    Algorithm,
    EnvironmentConfig,
    Onboarding,
    Overrides,
    PolicyConfig,
    RunConfig,
)
from edge_fed.errors import UnknownGoal
from edge_fed.evaluation import evaluate
from edge_fed.federated.control_variate import OWN
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import Task, initial_params, make_task
from edge_fed.meta.adaptation import adapt
from edge_fed.meta.careful import adapt_carefully
from edge_fed.onboarding import onboard
from edge_fed.params import F8, crc32, params_sha256
from edge_fed.rollouts import Sampler
from edge_fed.seeding import Purpose, stream

RUN = b"R" * 16
SMALL = RunConfig(
    seed=11,
    algorithm=Algorithm(local_steps=2, inner_batch=4, outer_batch=4, hessian_batch=4, baseline="value"),
    policy=PolicyConfig(args={"hidden": [4]}),
    environment=EnvironmentConfig(horizon=5),
    agents=(Agents(goals="0-5", inner_batch=6),),
    onboarding=Onboarding(m_adapt=(0, 8), eval_episodes=8, adapt_episodes=8, scratch=(), random=False),
)
STATELESS = msgspec.structs.replace(
    SMALL, algorithm=msgspec.structs.replace(SMALL.algorithm, baseline="none")
)


CORRECTED = msgspec.structs.replace(
    SMALL, algorithm=msgspec.structs.replace(SMALL.algorithm, correction="control_variate")
)


def silent(_step: int) -> None:
    """Nobody watches."""


def learner(tmp_path: Path, config: RunConfig = SMALL, goal: int = 2, **options: Any) -> Learner:
    """A learner that has built its task."""
    made = Learner(goal, options.pop("overrides", Overrides()), tmp_path, **options)
    made.perform(e.Build(1, msgspec.to_builtins(config), RUN), silent)
    return made


def task(config: RunConfig = SMALL, goal: int = 2, inner_batch: int = 6) -> Task:
    """The same task, made without the learner."""
    return make_task(config, goal, Overrides(inner_batch=inner_batch))


def start() -> F8:
    """The run's initial parameters."""
    return initial_params(SMALL)


def train(made: Learner, round_: int, last_counted: int = 0, reset: bool = False) -> e.Trained:
    """One round from the initial parameters."""
    event = made.perform(e.Train(9, round_, start(), last_counted, reset), silent)
    assert isinstance(event, e.Trained)
    return event


def test_build_says_what_the_server_checks(tmp_path: Path) -> None:
    """Dimension, hash of the initial parameters, effective overrides, and whether there is agent state."""
    made = Learner(2, Overrides(outer_batch=5), tmp_path)
    built = made.perform(e.Build(4, msgspec.to_builtins(SMALL), RUN), silent)
    assert isinstance(built, e.Built)
    assert (built.number, built.dimension) == (4, task().policy.dimension)
    assert built.initial_sha256 == params_sha256(start()) and built.stateful and built.tags == frozenset()
    assert built.overrides == Overrides(inner_batch=6, outer_batch=5) and built.seed == 11


def test_training_is_local_update_with_the_agents_settings(tmp_path: Path) -> None:
    """The delta, its checksum, its budget and its metrics are those of local_update called directly."""
    trained = train(learner(tmp_path), 3)
    mine = task()
    direct = local_update(mine, start(), initial_state(mine), 11, 3, silent)
    assert np.array_equal(trained.delta, direct.delta) and trained.crc32 == crc32(direct.delta)
    assert (trained.trajectories, trained.metrics) == (direct.trajectories, direct.metrics)
    assert trained.trajectories == 2 * (6 + 4) and trained.spent == trained.trajectories


def test_own_overrides_win_over_the_run(tmp_path: Path) -> None:
    """The command line's batch size, not that of the run's [[agents]] table, decides the budget."""
    made = learner(tmp_path, overrides=Overrides(inner_batch=9))
    assert train(made, 1).trajectories == 2 * (9 + 4)


def test_spent_counts_work_that_was_dropped(tmp_path: Path) -> None:
    """Trajectories of a step that was stopped are spent, and counted with the next update."""

    def stop_at_one(step: int) -> None:
        if step == 1:
            raise InterruptedError

    made = learner(tmp_path)
    with pytest.raises(InterruptedError):
        made.perform(e.Train(1, 1, start()), stop_at_one)
    assert train(made, 2).spent == 10 + 20


def test_state_follows_the_counted_rounds_only(tmp_path: Path) -> None:
    """Round 2 starts from the state after round 1 if that counted, else from the state before it."""
    mine = task()
    first = local_update(mine, start(), initial_state(mine), 11, 1, silent)
    deltas = []
    for counted, before in ((1, first.state), (0, initial_state(mine))):
        made = learner(tmp_path / str(counted))
        train(made, 1)
        expected = local_update(mine, start(), before, 11, 2, silent)
        assert np.array_equal(train(made, 2, last_counted=counted).delta, expected.delta)
        deltas.append(expected.delta)
    assert not np.array_equal(*deltas)


def test_state_is_on_disk_before_the_update_is_known(tmp_path: Path) -> None:
    """A process killed after training restarts with both candidates, and computes the same bits.

    [complaints 44]
    """
    made = learner(tmp_path)
    train(made, 1)
    expected = train(made, 2, last_counted=1)
    restarted = learner(tmp_path)
    assert StateStore.of_agent(tmp_path, RUN, 2).tags() == {1, 2}
    assert np.array_equal(train(restarted, 2, last_counted=1).delta, expected.delta)


def test_a_missing_state_is_an_error_unless_the_server_resets_it(tmp_path: Path) -> None:
    """Without the counted state nothing is computed; with a reset, the initial state is used."""
    made = learner(tmp_path)
    with pytest.raises(StateMissing, match="after round 4"):
        train(made, 5, last_counted=4)
    mine = task()
    expected = local_update(mine, start(), initial_state(mine), 11, 5, silent)
    assert np.array_equal(train(made, 5, last_counted=4, reset=True).delta, expected.delta)


def test_a_reset_stands_when_its_round_did_not_count(tmp_path: Path) -> None:
    """After a reset in round 5 that was not folded, round 6 starts from the initial state again."""
    made = learner(tmp_path)
    train(made, 5, last_counted=4, reset=True)
    assert StateStore.of_agent(tmp_path, RUN, 2).tags() == {5}  # not yet written down as the state after 4
    mine = task()
    expected = local_update(mine, start(), initial_state(mine), 11, 6, silent)
    assert np.array_equal(train(made, 6, last_counted=4).delta, expected.delta)
    assert learner(tmp_path).perform(e.Build(1, msgspec.to_builtins(SMALL), RUN), silent).tags == {4, 6}  # type: ignore[attr-defined]


def test_a_stateless_agent_writes_nothing(tmp_path: Path) -> None:
    """Without a learning baseline there is no state, no file, and nothing to miss."""
    made = learner(tmp_path, STATELESS)
    train(made, 1)
    train(made, 9, last_counted=8)
    assert list(tmp_path.iterdir()) == []


def corrected(made: Learner, round_: int, c: float, counted: int = 0, **fields: bool) -> e.Trained:
    """One round with control variate c from the initial parameters."""
    work = e.Train(9, round_, start(), counted, control=np.full(start().size, c), **fields)
    event = made.perform(work, silent)
    assert isinstance(event, e.Trained)
    return event


@pytest.mark.parametrize("baseline", ["none", "value"])
def test_a_control_variate_is_agent_state(tmp_path: Path, baseline: str) -> None:
    """READY says so; it is stored beside the baseline's, survives a restart, follows counted rounds only."""
    algorithm = msgspec.structs.replace(CORRECTED.algorithm, baseline=baseline)
    config = msgspec.structs.replace(CORRECTED, algorithm=algorithm)
    made = learner(tmp_path, config)
    built = made.perform(e.Build(1, msgspec.to_builtins(config), RUN), silent)
    assert isinstance(built, e.Built) and built.stateful
    mine, c = task(config), np.full(start().size, 0.5)
    first = local_update(mine, start(), initial_state(mine), 11, 1, silent, c)
    assert np.array_equal(corrected(made, 1, 0.5).delta, first.delta)
    stored = StateStore.of_agent(tmp_path, RUN, 2).get(1)
    assert stored is not None and set(stored) == set(first.state) and OWN in stored
    assert np.array_equal(stored[OWN], first.state[OWN])
    second = local_update(mine, start(), first.state, 11, 2, silent, c)
    assert np.array_equal(corrected(learner(tmp_path, config), 2, 0.5, counted=1).delta, second.delta)
    anew = local_update(mine, start(), initial_state(mine), 11, 2, silent, c)
    assert np.array_equal(corrected(learner(tmp_path, config), 2, 0.5, counted=0).delta, anew.delta)
    assert not np.array_equal(second.delta, anew.delta)


def test_a_reset_of_the_control_variate_leaves_the_baseline(tmp_path: Path) -> None:
    """It starts from zero, the value function goes on; the stored state stays, the round may be skipped."""
    made, mine, c = learner(tmp_path, CORRECTED), task(CORRECTED), np.full(start().size, 0.5)
    state = local_update(mine, start(), initial_state(mine), 11, 1, silent, c).state
    corrected(made, 1, 0.5)
    zero = {**state, OWN: np.zeros_like(c)}
    for _ in range(2):
        expected = local_update(mine, start(), zero, 11, 2, silent, c)
        assert np.array_equal(corrected(made, 2, 0.5, 1, control_reset=True).delta, expected.delta)
    kept = StateStore.of_agent(tmp_path, RUN, 2).get(1)
    assert kept is not None and np.array_equal(kept[OWN], state[OWN]) and state[OWN].any()
    lost = learner(tmp_path / "elsewhere", CORRECTED)
    with pytest.raises(StateMissing):
        corrected(lost, 2, 0.5, 1, control_reset=True)
    anew = local_update(mine, start(), initial_state(mine), 11, 2, silent, c)
    assert np.array_equal(corrected(lost, 2, 0.5, 1, state_reset=True, control_reset=True).delta, anew.delta)


@pytest.mark.parametrize("careful", [True, False])
def test_evaluation_reports_its_row_and_keeps_the_adapted_policy(careful: bool, tmp_path: Path) -> None:
    """The row is that of evaluate; --save holds the parameters, adapted carefully unless the run says not."""
    file = tmp_path / "policy.npz"
    config = msgspec.structs.replace(
        SMALL, onboarding=msgspec.structs.replace(SMALL.onboarding, careful=careful)
    )
    made = learner(tmp_path, config, save=file)
    measured = made.perform(e.Evaluate(5, 7, start()), silent)
    row = evaluate(task(), start(), 11, SMALL.onboarding)
    assert measured == e.Measured(5, (row,), row["trajectories"])
    mine = task()
    fresh = msgspec.structs.replace(mine, sample=Sampler(mine.environment, mine.policy))
    how = adapt_carefully if careful else adapt
    expected = how(fresh, start(), 8, stream(11, 2, 0, 0, Purpose.EVALUATE))
    with np.load(file, allow_pickle=False) as kept:
        assert np.array_equal(kept["params"], expected) and np.array_equal(kept["initial"], start())
        about = json.loads(str(kept["about"]))
        by_name = np.concatenate([kept["layer1"].ravel(), kept["layer2"].ravel()])
    assert np.array_equal(by_name, expected)
    assert (about["goal"], about["round"], about["run"]) == (2, 7, RUN.hex())
    assert about["policy"] == {"name": "mlp", "args": {"hidden": [4]}}
    assert about["layout"]["arrays"] == [["layer1", [3, 4]], ["layer2", [5, 8]]]
    assert (about["careful"], about["m_adapt"], about["step_size"], about["seed"]) == (careful, 8, 1.0, 11)
    assert about["overrides"] == {"inner_batch": 6} and about["algorithm"]["inner_batch"] == 6
    assert train(made, 1).spent == 20  # evaluation is no training


def test_onboarding_gives_the_rows_of_onboard(tmp_path: Path) -> None:
    """Rows, budgets and the saved policy are those of edge_fed.evaluation.onboard for a held-out goal."""
    file = tmp_path / "policy.npz"
    made = learner(tmp_path, goal=7, save=file)
    measured = made.perform(e.Onboard(2, 150, start()), silent)
    found = onboard(make_task(SMALL, 7, Overrides()), start(), 11, SMALL.onboarding, silent)
    assert isinstance(measured, e.Measured) and list(measured.rows) == found.rows
    assert measured.trajectories == found.adapt_trajectories + found.eval_trajectories
    with np.load(file, allow_pickle=False) as kept:
        assert np.array_equal(kept["params"], found.params)


@pytest.mark.parametrize("kind", [e.Onboard, e.Evaluate])
@pytest.mark.parametrize(("alpha", "begins"), [(0.0, ""), (200.0, "the inner step leads far")])
def test_an_inner_step_that_leads_far_is_told(
    kind: type[e.Evaluate] | type[e.Onboard], alpha: float, begins: str, tmp_path: Path
) -> None:
    """Beside the rows, which have the keys that they always have."""
    settings = RunConfig(
        seed=11,
        algorithm=Algorithm(inner_step_size=alpha),
        onboarding=Onboarding(m_adapt=(0, 64), eval_episodes=8, adapt_episodes=64, scratch=(), random=False),
    )
    made = Learner(7, Overrides(), tmp_path)
    made.perform(e.Build(1, msgspec.to_builtins(settings), RUN), silent)
    measured = made.perform(kind(2, 150, initial_params(settings)), silent)
    assert isinstance(measured, e.Measured)
    assert measured.warning[:24] == begins
    keys = {"goal", "init", "m_adapt", "return", "success", "trajectories"}
    assert kind is e.Evaluate or all(row.keys() - {"factor"} == keys for row in measured.rows)


@pytest.mark.parametrize("work", [e.Onboard(2, 150, start()), e.Evaluate(2, 150, start())])
def test_rows_survive_a_policy_that_cannot_be_saved(work: e.Work, tmp_path: Path) -> None:
    """The measurement is not thrown away for want of a folder; what was wrong is named."""
    made = learner(tmp_path, goal=7, save=tmp_path / "gone" / "policy.npz")
    measured = made.perform(work, silent)
    assert isinstance(measured, e.Measured) and measured.rows
    assert "gone/policy.npz: No such file" in measured.unsaved


def test_a_goal_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """Building for such a goal names the valid range."""
    with pytest.raises(UnknownGoal, match="0"):
        learner(tmp_path, goal=99)


@pytest.mark.parametrize("spoil", [lambda a: a * np.nan, lambda a: a.ravel(), lambda a: np.zeros(3)])
def test_a_state_that_this_task_does_not_keep_is_declared_missing(tmp_path: Path, spoil: Any) -> None:
    """NaN or another shape: READY does not name its round, and the server resets it."""
    made = learner(tmp_path)
    state = initial_state(made._task)
    own = StateStore.of_agent(tmp_path, RUN, 2)
    own.put(4, state)
    own.put(5, {name: spoil(array + 1.0) for name, array in state.items()})
    assert own.tags() >= {4}
    assert made.build(e.Build(1, msgspec.to_builtins(SMALL), RUN)).tags == frozenset({4})


def test_a_policy_saved_through_a_link_leaves_the_link(tmp_path: Path) -> None:
    """The file that it names is written, also a new one."""
    (tmp_path / "there").mkdir()
    link = tmp_path / "policy.npz"
    link.symlink_to(tmp_path / "there" / "newest.npz")
    made = learner(tmp_path, goal=7, save=link)
    found = made.perform(e.Onboard(2, 3, initial_params(SMALL)), silent)
    assert isinstance(found, e.Measured) and found.unsaved == ""
    assert link.is_symlink() and (tmp_path / "there" / "newest.npz").is_file()
