"""What a device computes: the simulation's update from one plant, through crashes, within its day."""

import gc
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent import events as e
from agent.daily_budget import BudgetSpent
from agent.learner import Learner
from agent.plant_file import PlantFile
from agent.plant_learner import PlantLearner
from agent.policy_file import read
from agent.worker import Stopped, Watched, failure
from edge_fed.config import (
    Agents,
    Algorithm,
    EnvironmentConfig,
    Onboarding,
    Overrides,
    PolicyConfig,
    Privacy,
    RunConfig,
    TaskConfig,
)
from edge_fed.federated.task import initial_params
from edge_fed.program.exit_codes import ExitCode, ProgramError
from tests.agent.test_daily_budget import DAY, NOON
from tests.edge_fed.plants import PLANTS, Cart, OnePort

RUN = b"D" * 16
GYM = {"id": f"{PLANTS}:Cart", "goals": 3, "held_out": 0, "success": False, "obs_scale": 0.5}
CONFIG = RunConfig(
    seed=11,
    environment=EnvironmentConfig(family="gymnasium", horizon=3, args=GYM),
    policy=PolicyConfig(name="gaussian", args={"hidden": [3]}),
    algorithm=Algorithm(
        variant="exact", local_steps=2, inner_batch=2, hessian_batch=3, outer_batch=2, baseline="value"
    ),
    onboarding=Onboarding(m_adapt=(0, 8), adapt_episodes=20, eval_episodes=4, scratch=(), random=False),
    agents=(Agents(goals="0-2"),),
)
BOOTSTRAPPED = EnvironmentConfig(family="gymnasium", horizon=3, args={**GYM, "bootstrap": "value"})
THETA = np.linspace(-0.3, 0.4, 17)
PER_ROUND = 2 * (2 + 3 + 2)
DEVICE = PlantFile(environment=f"{PLANTS}:Cart")


class Watch(Watched):
    """Lets so many actions happen, and then nobody wants the work any more."""

    def __init__(self, actions: int = 10**9) -> None:
        super().__init__(lambda _step: None, lambda _text: None, threading.Event(), lambda _step: 0.0)
        self.left = actions
        self.say = self._count

    def _count(self, _text: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stopped


def limit(observation: Any, action: Any) -> Any:
    """A shield: nothing moves along the second axis."""
    return action * np.float32([[1], [0]])


def device(
    folder: Path, settings: PlantFile = DEVICE, config: RunConfig = CONFIG, **options: Any
) -> tuple[PlantLearner, Cart]:
    """A device that has built its task, and its plant."""
    overrides = Overrides(device=settings.facts())
    made = PlantLearner(2, overrides, folder, settings=settings, **options)
    made.perform(e.Build(1, msgspec.to_builtins(config), RUN), Watch())
    return made, Cart.made[-1]


def train(made: Learner, round_: int = 1, watch: Watch | None = None) -> e.Trained:
    """One round from the initial parameters."""
    event = made.perform(e.Train(9, round_, initial_params(CONFIG)), watch or Watch())
    assert isinstance(event, e.Trained)
    return event


def test_the_update_is_that_of_the_simulation(tmp_path: Path) -> None:
    """A plant that follows its seeds: the same trajectories, normalised as the run says, on one instance."""
    simulated = Learner(2, Overrides(), tmp_path / "simulated")
    simulated.perform(e.Build(1, msgspec.to_builtins(CONFIG), RUN), lambda _step: None)
    expected = train(simulated)
    made, plant = device(tmp_path / "device")
    found = train(made)
    assert np.allclose(found.delta, expected.delta, atol=1e-9) and np.any(found.delta)
    assert found.metrics == pytest.approx(expected.metrics)
    assert found.trajectories == found.spent == plant.resets == PER_ROUND
    assert plant.closed == 0


def test_a_round_that_was_cut_off_goes_on_with_its_episodes(tmp_path: Path) -> None:
    """Another process, the same folder: eleven and a half episodes were played, the rest is played now."""
    whole, _ = device(tmp_path / "whole")
    expected = train(whole)
    made, plant = device(tmp_path / "device")
    with pytest.raises(Stopped):
        train(made, watch=Watch(11 * 4 + 2))
    assert plant.resets == 12
    said: list[str] = []
    again, plant = device(tmp_path / "device", say=said.append)
    found = train(again)
    assert plant.resets == PER_ROUND - 11
    assert found.crc32 == expected.crc32 and found.trajectories == PER_ROUND
    assert said == ["round 1: 11 episodes are there from before"]
    (damaged, *_) = (tmp_path / "device").rglob("*.npz")
    folder = next((tmp_path / "device").rglob("episodes"))
    damaged = min(folder.rglob("*.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert train(again).crc32 == expected.crc32 and plant.resets == PER_ROUND - 10


@pytest.mark.parametrize("change", ["round", "parameters", "device"])
def test_episodes_of_another_question_are_stale(tmp_path: Path, change: str) -> None:
    """They are deleted, and nothing of them is used: another round, other parameters, another set-up."""
    made, _ = device(tmp_path)
    train(made)
    kept = {path.parent.name for path in tmp_path.rglob("episodes/*/*.npz")}
    settings = msgspec.structs.replace(DEVICE, pace_s=1e-9) if change == "device" else DEVICE
    again, plant = device(tmp_path, settings)
    params = initial_params(CONFIG) + (1e-12 if change == "parameters" else 0.0)
    again.perform(e.Train(9, 2 if change == "round" else 1, params), Watch())
    assert plant.resets == PER_ROUND
    assert kept.isdisjoint(path.parent.name for path in tmp_path.rglob("episodes/*/*.npz"))


def test_a_round_begins_only_if_the_day_has_room_for_all_of_it(tmp_path: Path) -> None:
    """No trajectory is begun in vain; kept ones need no room; the next day there is room again."""
    now = [NOON]
    settings = msgspec.structs.replace(DEVICE, daily_trajectories=PER_ROUND + 5)
    made, plant = device(tmp_path, settings, today=lambda: now[0])
    train(made)
    with pytest.raises(
        BudgetSpent, match=f"has 5 left, round 2 needs {PER_ROUND}; back at 2026-12-01"
    ) as end:
        train(made, 2)
    assert end.value.for_s == DAY / 2 and plant.resets == PER_ROUND
    again, _ = device(tmp_path, settings, today=lambda: now[0])
    with pytest.raises(BudgetSpent, match="has 5 left"):
        train(again, 2)
    now[0] += DAY
    with pytest.raises(Stopped):
        train(again, 2, Watch(13 * 4))
    train(again, 2)
    with pytest.raises(BudgetSpent, match="has 4 left"):
        train(again, 3)


def test_the_shield_s_overrides_are_counted_in_the_metrics(tmp_path: Path) -> None:
    """Kept episodes included; said in the log; the score is of the policy's actions."""
    said: list[str] = []
    settings = msgspec.structs.replace(DEVICE, shield=f"{__name__}:limit")
    made, plant = device(tmp_path, settings, say=said.append)
    first = train(made)
    assert first.metrics["shield_overrides"] == PER_ROUND * 4
    assert not np.any([action[1] for action in plant.actions])
    assert train(made).metrics == first.metrics and plant.resets == PER_ROUND
    assert said.count(f"round 1: the shield changed {PER_ROUND * 4} actions") == 2


def test_private_noise_hides_how_often_the_shield_acts(tmp_path: Path) -> None:
    """The device's own log says it, and nobody else is told."""
    said: list[str] = []
    settings = msgspec.structs.replace(DEVICE, shield=f"{__name__}:limit")
    private = Privacy(clip_norm=1.0, noise_multiplier=2.0)
    made, _ = device(tmp_path, settings, msgspec.structs.replace(CONFIG, privacy=private), say=said.append)
    watch = Watch()
    assert train(made, watch=watch).metrics == {} and "the shield changed" in said[-1]
    assert watch.left == 10**9, "nor where it is: how long an episode lasts is data"


def test_a_shield_that_fails_ends_the_agent_by_name(tmp_path: Path) -> None:
    """The episode stops before anything is applied, the plant is closed, the cause names the shield."""
    settings = msgspec.structs.replace(DEVICE, shield=f"{__name__}:broken")
    made, plant = device(tmp_path, settings)
    work = e.Train(9, 1, initial_params(CONFIG))
    with pytest.raises(Exception, match="the shield") as found:
        made.perform(work, Watch())
    failed = failure(work, found.value)
    assert (
        f"agent 2 (device {PLANTS}:Cart): step raised ShieldFault: the shield {__name__}:broken" in failed.why
    )
    assert "raised RuntimeError: too hot" in failed.why and not failed.refused
    assert plant.actions == [] and plant.closed == 1


def broken(observation: Any, action: Any) -> Any:
    """A shield that fails."""
    raise RuntimeError("too hot")


def test_a_next_run_finds_the_plant_let_go(tmp_path: Path) -> None:
    """There is one plant: it is closed before it is made again, and when nobody holds it any more."""
    made, _ = device(tmp_path, PlantFile(environment=f"{PLANTS}:OnePort"))
    made.perform(e.Build(2, msgspec.to_builtins(CONFIG), b"E" * 16), Watch())
    assert OnePort.taken
    del made
    gc.collect()
    assert not OnePort.taken


def test_an_onboarder_measures_itself_on_its_plant(tmp_path: Path) -> None:
    """The rows of `onboard`, on the one instance; what was scored already is not played once more."""
    made, plant = device(tmp_path)
    event = made.perform(e.Onboard(3, 5, initial_params(CONFIG)), Watch())
    assert isinstance(event, e.Measured)
    assert [(row["init"], row["m_adapt"]) for row in event.rows] == [
        ("learned", 0),
        ("learned", 8),
        ("careful", 8),
    ]
    kept_the_initialization = 4 if event.rows[2]["factor"] == 0 else 0  # and had scored it in the first row
    assert plant.resets == event.trajectories - kept_the_initialization > 15


def saver(
    folder: Path, settings: PlantFile = DEVICE, config: RunConfig = CONFIG, **options: Any
) -> PlantLearner:
    """A device that trains, and wants a policy of its own at the end."""
    folder.mkdir(exist_ok=True)
    made = PlantLearner(
        2,
        Overrides(device=settings.facts(saves=True)),
        folder,
        folder / "p.npz",
        settings=settings,
        **options,
    )
    made.perform(e.Build(1, msgspec.to_builtins(config), RUN), Watch())
    return made


def test_the_final_parameters_are_adapted_to_the_plant_and_saved(tmp_path: Path) -> None:
    """As a simulated agent's are, for the price of the adaptation: nothing is measured, nothing reported."""
    work = e.Evaluate(3, 5, THETA)
    plain = msgspec.structs.replace(CONFIG.onboarding, careful=False)  # a step is taken, whatever it is worth
    config = msgspec.structs.replace(CONFIG, onboarding=plain)
    simulated = Learner(2, Overrides(), tmp_path, tmp_path / "simulated.npz")
    simulated.perform(e.Build(1, msgspec.to_builtins(config), RUN), lambda _: None)
    simulated.perform(work, lambda _: None)
    said: list[str] = []
    made = saver(tmp_path, config=config, say=said.append)
    plant = Cart.made[-1]
    assert made.perform(work, Watch()) == e.Measured(3, (), 0)
    assert plant.resets == config.onboarding.adapt_episodes == 20
    expected, found = read(tmp_path / "simulated.npz"), read(tmp_path / "p.npz")
    assert np.array_equal(found.initial, THETA) and np.allclose(found.params, expected.params)
    assert not np.array_equal(found.params, THETA)
    assert found.about["m_adapt"] == 20 and found.about["round"] == 5
    assert said == [f"adapted the parameters of round 5 and saved them: {tmp_path / 'p.npz'}"]


def test_its_own_policy_waits_for_the_days_that_it_takes(tmp_path: Path) -> None:
    """Twenty episodes at nine a day: each is played once, and a restart in between plays none again."""
    now, days = [NOON], []

    class Sleeps(Watch):
        def pause(self, seconds: float) -> None:
            now[0] += seconds
            if seconds and len(days) == 2:
                raise Stopped

    settings = msgspec.structs.replace(DEVICE, daily_trajectories=9)
    made = saver(tmp_path, settings, say=days.append, today=lambda: now[0])
    first = Cart.made[-1]
    with pytest.raises(Stopped):
        made.perform(e.Evaluate(3, 5, THETA), Sleeps())
    assert [day[:36] for day in days] == ["its own policy is not adapted yet: t"] * 2 and first.resets == 18
    now[0] += DAY
    made = saver(tmp_path, settings, today=lambda: now[0])
    made.perform(e.Evaluate(3, 5, THETA), Watch())
    assert Cart.made[-1].resets == 2 and (tmp_path / "p.npz").exists()


def test_inner_steps_that_start_at_equal_parameters_keep_their_episodes_apart(tmp_path: Path) -> None:
    """Two of them, the first of which leads nowhere; a restart in the second plays none of either again."""
    algorithm = msgspec.structs.replace(CONFIG.algorithm, adapt_steps=2)
    nowhere = msgspec.structs.replace(CONFIG.onboarding, step_size=0.0)
    config = msgspec.structs.replace(CONFIG, algorithm=algorithm, onboarding=nowhere)
    work = e.Evaluate(3, 5, THETA)
    saver(tmp_path / "whole", config=config).perform(work, Watch())
    whole = Cart.made[-1].resets
    made, first = saver(tmp_path / "parts", config=config), Cart.made[-1]
    with pytest.raises(Stopped):
        made.perform(work, Watch((whole - 5) * 4 + 2))
    assert first.resets == whole - 4, "half of the last is not kept"
    saver(tmp_path / "parts", config=config).perform(work, Watch())
    assert Cart.made[-1].resets == 5
    found = [(tmp_path / part / "p.npz").read_bytes() for part in ("whole", "parts")]
    assert found[0] == found[1]


def test_no_server_makes_a_device_play_for_a_figure(tmp_path: Path) -> None:
    """An evaluation is for saving alone."""
    made, plant = device(tmp_path)
    assert made.perform(e.Evaluate(3, 5, THETA), Watch()) == e.Measured(3, (), 0)
    assert plant.resets == 0


def test_a_run_that_has_nothing_to_save_is_refused_before_it_begins(tmp_path: Path) -> None:
    """With private noise nobody is evaluated: a device that trains learns it now; one that onboards stays."""
    private = msgspec.structs.replace(CONFIG, privacy=Privacy(clip_norm=1.0, noise_multiplier=2.0))
    work = e.Build(1, msgspec.to_builtins(private), RUN)
    onboards = msgspec.structs.replace(work, role="onboard")
    for save, asked, refused in ((True, work, True), (True, onboards, False), (False, work, False)):
        path = tmp_path / "p.npz" if save else None
        made = PlantLearner(2, Overrides(device=DEVICE.facts()), tmp_path, path, settings=DEVICE)
        if refused:
            with pytest.raises(ProgramError, match="a run with private noise evaluates nothing"):
                made.perform(asked, Watch())
        else:
            made.perform(asked, Watch())


def test_a_device_that_onboards_needs_no_bootstrap(tmp_path: Path) -> None:
    """Training alone has one: the newcomer adapts, and plays as many episodes as without."""
    config = msgspec.structs.replace(CONFIG, environment=BOOTSTRAPPED)
    rows = []
    for folder, run in (("with", config), ("without", CONFIG)):
        made = PlantLearner(2, Overrides(device=DEVICE.facts()), tmp_path / folder, settings=DEVICE)
        made.perform(e.Build(1, msgspec.to_builtins(run), RUN, "onboard"), Watch())
        event = made.perform(e.Onboard(3, 5, initial_params(CONFIG)), Watch())
        assert isinstance(event, e.Measured)
        rows.append(event.rows)
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("settings", "config", "code", "why"),
    [
        ({"environment": f"{PLANTS}:Missing"}, {}, ExitCode.USAGE, "has no 'Missing'"),
        ({"env_args": {"speed": 1}}, {}, ExitCode.USAGE, "unexpected keyword argument 'speed'"),
        (
            {"environment": "tests.edge_fed.gym.toy_envs:Corridor"},
            {},
            ExitCode.REFUSED,
            "the plant has Spaces",
        ),
        ({}, {"task": TaskConfig(kind="supervised")}, ExitCode.REFUSED, "this run's tasks are samples"),
        (
            {},
            {"environment": BOOTSTRAPPED},
            ExitCode.REFUSED,
            "bootstrap 'value' needs how each episode ended",
        ),
    ],
)
def test_a_plant_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, settings: dict[str, Any], config: dict[str, Any], code: ExitCode, why: str
) -> None:
    """Before READY: it cannot be made, or it is another plant than the run is about."""
    changed = msgspec.structs.replace(CONFIG, **config)
    with pytest.raises(ProgramError, match=why) as found:
        device(tmp_path, msgspec.structs.replace(DEVICE, **settings), changed)
    assert found.value.code is code
