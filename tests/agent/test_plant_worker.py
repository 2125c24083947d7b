"""A life on one real plant: the simulation's decisions, each episode paid once, day after day."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from agent.daily_budget import DailyBudget, day_file
from agent.life import Habits, Life, State
from agent.life_events import Act, Acted, Onboard, Onboarded
from agent.life_store import LifeStore
from agent.life_worker import LifeWorker
from agent.living import Living
from agent.news import News
from agent.plant_file import PlantFile
from agent.plant_worker import PlantWorker, described
from agent.policy_file import SCHEMA, PolicyFile
from agent.stops import Signalled, Stops
from edge_fed.config import Overrides
from edge_fed.federated.task import make_task
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.reinforcement import Reinforcement
from tests.agent.test_daily_budget import DAY, NOON
from tests.agent.test_plant_learner import CONFIG, DEVICE
from tests.edge_fed.plants import PLANTS, Cart

GOAL, SEED, STEPS = 2, 5, 4
THETA = np.linspace(-0.3, 0.4, 17)
POLICY = PolicyFile(THETA + 0.01, THETA, {"schema": SCHEMA})
DRAWS = (THETA, 0.05, SEED)
HABITS = Habits(episodes=90, batch=10, onboard=20, reference=20, run_length=10.0, fall=0.1)


def task() -> Reinforcement:
    """Of the run, simulated."""
    return make_task(CONFIG, GOAL, Overrides())


class Ends(Stops):
    """A life that ends after so many actions; a wait lasts no time, is known, and moves the day's clock."""

    def __init__(self, actions: int = 10**9, clock: list[float] | None = None) -> None:
        super().__init__()
        self.left = actions
        self.clock = [NOON] if clock is None else clock
        self.waits: list[float] = []

    def say(self, text: str) -> None:
        """Counts an action that is about to be applied."""
        self.left -= 1
        if self.left < 0:
            self.number = 15
            raise Signalled

    def pause(self, seconds: float) -> None:
        """Waits."""
        super().pause(0.0)
        if seconds:
            self.waits.append(seconds)
            self.clock[0] += seconds


def worker(
    folder: Path, stops: Ends, settings: PlantFile = DEVICE, tell: Callable[[News], None] = lambda _: None
) -> PlantWorker:
    """Who acts on a new plant, `Cart.made[-1]`."""
    return PlantWorker(
        task(), CONFIG.environment, *DRAWS,
        settings=settings, folder=folder, stops=stops, tell=tell, today=lambda: stops.clock[0],
    )  # fmt: skip


def lived(
    folder: Path, stops: Ends, settings: PlantFile = DEVICE, habits: Habits = HABITS, *, alarmed: bool = False
) -> tuple[ExitCode, State, list[News], Cart]:
    """A life in this folder until it ends; ``alarmed``: a re-onboarding is what it does first."""
    news: list[News] = []
    with (
        LifeStore(folder, POLICY, GOAL, SEED, "cart") as store,
        worker(folder, stops, settings, news.append) as does,
    ):
        plant = Cart.made[-1]
        params, state = store.load()
        state.alarmed = state.alarmed or (alarmed and state.episode == 0)
        code = Living(Life(habits, state), does, params, store, news.append, stops).run()
    assert plant.closed == 1
    return code, state, news, plant


def test_what_it_does_is_what_the_simulation_does(tmp_path: Path) -> None:
    """A plant that follows its seeds: the returns and the re-onboarding of m simulated instances."""
    simulated, (stops, made) = LifeWorker(task(), task(), *DRAWS), (Ends(), [])
    with worker(tmp_path, stops) as does:
        plant = Cart.made[-1]
        for work in (Act(7), Onboard(20, 1, 2)):
            made.append([each.perform(work, THETA, 30, changed=False) for each in (simulated, does)])
        assert plant.resets == 7 + 20 + 2 * 2
    (acted, there), (onboarded, anew) = made
    assert isinstance(acted, Acted) and isinstance(there, Acted) and there.overridden is None
    assert np.allclose(there.returns, acted.returns) and there.returns.std() > 0
    assert isinstance(onboarded, Onboarded) and isinstance(anew, Onboarded)
    assert anew.factor == onboarded.factor and np.allclose(anew.anew, onboarded.anew)


@pytest.mark.parametrize("learn", [0, 20])
@pytest.mark.parametrize("at", [3, 18, 22, 27, 43])
def test_a_finished_episode_is_never_played_again(at: int, learn: int, tmp_path: Path) -> None:
    """Killed in its n-th episode, whatever that is for: one episode more, and the same life."""
    habits = msgspec.structs.replace(HABITS, learn=learn)
    _, whole, told, plant = lived(tmp_path / "whole", Ends(), habits=habits, alarmed=True)
    assert plant.resets == whole.episode >= 90 and whole.onboardings >= 1
    assert bool(learn) == any(each.what in ("step taken", "step not taken") for each in told)
    code, _, _, first = lived(tmp_path / "parts", Ends(STEPS * at + 2), habits=habits, alarmed=True)
    assert code == 143 and first.resets == at + 1
    code, state, _, second = lived(tmp_path / "parts", Ends(), habits=habits, alarmed=True)
    assert (code, state) == (ExitCode.OK, whole)
    assert first.resets + second.resets == whole.episode + 1


def test_a_spent_day_is_waited_for_and_said_once(tmp_path: Path) -> None:
    """Work spans days; no day sees more episodes than its budget; the life is that without a budget."""
    settings = PlantFile(environment=DEVICE.environment, daily_trajectories=7)
    _, whole, _, _ = lived(tmp_path / "whole", Ends(), alarmed=True)
    code, state, news, plant = lived(tmp_path / "days", stops := Ends(), settings, alarmed=True)
    assert (code, state, plant.resets) == (ExitCode.OK, whole, whole.episode)
    waits = [each.why for each in news if each.what == "waits"]
    assert len(waits) == len(set(waits)) == (whole.episode - 1) // 7
    assert (
        waits[0].startswith("the daily budget of 7 trajectories has 0 left")
        and "2026-12-01T00:00Z" in waits[0]
    )
    assert sum(stops.waits) == pytest.approx(DAY / 2 + DAY * (len(waits) - 1))
    assert max(stops.waits) < 3600, "it looks at the clock, which may be set"


def test_the_day_is_one_with_that_of_training(tmp_path: Path) -> None:
    """What `python -m agent --device` has used today is used; what a life uses is, too."""
    settings = PlantFile(environment=DEVICE.environment, daily_trajectories=7)
    for _ in range(5):
        DailyBudget(day_file(tmp_path, GOAL), 7, lambda: NOON).spend()
    with worker(tmp_path, stops := Ends(), settings) as does:
        does.perform(Act(2), THETA, 0, changed=False)
        assert stops.waits == []
        does.perform(Act(1), THETA, 2, changed=False)
        assert sum(stops.waits) == DAY / 2


def test_a_signal_ends_the_wait_for_a_day(tmp_path: Path) -> None:
    """With what is there kept, and the plant closed."""

    class Called(Ends):
        def pause(self, seconds: float) -> None:
            self.number = 15 if seconds else self.number
            super().pause(seconds)

    settings = PlantFile(environment=DEVICE.environment, daily_trajectories=13)
    code, state, news, plant = lived(tmp_path, Called(), settings)
    assert (code, state.episode, plant.resets, news[-1].what) == (143, 10, 13, "waits")
    _, state, _, plant = lived(tmp_path, Ends(clock=[NOON + DAY]), settings, Habits(episodes=20))
    assert (state.episode, plant.resets) == (20, 7)


def test_the_shield_acts_and_its_changes_are_in_the_journal(tmp_path: Path) -> None:
    """Of every batch, episodes from before a crash included."""
    settings = PlantFile(environment=DEVICE.environment, shield="tests.agent.test_plant_learner:limit")
    lived(tmp_path, Ends(STEPS * 6), settings, habits := Habits(episodes=10, reference=20))
    _, _, _, plant = lived(tmp_path, Ends(), settings, habits)
    assert plant.actions and not np.any([action[1] for action in plant.actions])
    with LifeStore(tmp_path, POLICY, GOAL, SEED, "cart") as store:
        store.load()
        assert [line["overridden"] for line in store.lines if line["what"] == "batch"] == [10 * STEPS]


def test_a_plant_that_fails_ends_the_life_and_is_closed(tmp_path: Path) -> None:
    """By name; nothing is applied any more."""
    settings = PlantFile(environment=DEVICE.environment, shield="tests.agent.test_plant_learner:broken")
    with pytest.raises(ProgramError, match=r"after 0 episodes: .*the shield .* raised RuntimeError: too hot"):
        lived(tmp_path, Ends(), settings)
    assert Cart.made[-1].closed == 1 and Cart.made[-1].actions == []


def test_an_episode_that_cannot_be_kept_ends_the_life(tmp_path: Path) -> None:
    """Paid for, and nobody could go on with it: no further one is begun."""
    with worker(tmp_path, Ends()) as does:
        (tmp_path / f"live-{GOAL}-episodes").write_text("no folder")
        with pytest.raises(ProgramError, match="an episode cannot be kept") as found:
            does.perform(Act(2), THETA, 0, changed=False)
        assert found.value.code is ExitCode.FAILED and Cart.made[-1].resets == 0


def test_a_life_of_a_simulation_does_not_go_on_on_a_plant(tmp_path: Path) -> None:
    """Its reference is none of the plant's; nor the other way, nor on another plant."""
    for first, then in ((None, "cart"), ("cart", None), ("cart", "crane")):
        folder = tmp_path / f"{first}-{then}"
        with LifeStore(folder, POLICY, GOAL, SEED, first) as store:
            store.put(THETA, State())
        with (
            LifeStore(folder, POLICY, GOAL, SEED, then) as store,
            pytest.raises(ProgramError, match="of another life: another device"),
        ):
            store.load()


def test_its_owner_reads_what_holds_on_this_plant() -> None:
    """Budget, shield, what is not tried, and which promise a plant without resets cannot keep."""
    bare = described(PlantFile(environment=f"{PLANTS}:Cart", reset="never"), 0, 0).why
    assert "no daily budget; no shield; no policy is tried" in bare and "may come sooner than stated" in bare
    safe = PlantFile(environment="plant:make", shield="plant:limit", daily_trajectories=9)
    assert described(safe, 0, None).why == (
        "acts on the plant plant:make; at most 9 episodes a day; shield plant:limit"
    )
