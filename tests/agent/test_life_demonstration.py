"""What the drift alarm and re-onboarding are worth, measured: the paper's few-shot policy of goal 7.

In each of 20 lives the policy is adapted anew from 200 trajectories. `docs/life.md` has the figures of this
and of other training seeds.
"""

import msgspec
import numpy as np
import pytest

from agent.life import Habits, Life, State
from agent.life_store import LifeStore
from agent.life_worker import LifeWorker
from agent.living import Living
from agent.news import News
from agent.policy_file import PolicyFile
from agent.stops import Stops
from edge_fed.config import Overrides, RunConfig
from edge_fed.federated.per_fedavg_pg import train
from edge_fed.federated.task import make_task
from edge_fed.params import F8
from edge_fed.reinforcement import Reinforcement
from edge_fed.returns import episode_return

CONFIG = RunConfig()
GOAL, MOVED, M = 7, 6, 200
SEEDS = range(20)
CHANGE = 400
WITHIN = 30  # episodes after the change
UNCHANGED = 3000  # episodes without a change

pytestmark = pytest.mark.seeds


@pytest.fixture(scope="module")
def shared() -> F8:
    """The shared initialization of a whole few-shot run."""
    *_, last = train(CONFIG)
    return last.params


def worth(task: Reinforcement, params: F8) -> float:
    """Mean return of 1,024 episodes that no life plays."""
    played = task.sample.fresh().outcomes(params, 1024, np.random.default_rng(99))
    return float(episode_return(played.rewards).mean())


def lived(shared: F8, seed: int, **habits: object) -> tuple[F8, F8, list[News]]:
    """A life of the policy that a newcomer of goal 7 adapts; parameters before and after, and the news."""
    task = make_task(CONFIG, GOAL, Overrides())
    moved = msgspec.structs.replace(make_task(CONFIG, MOVED, Overrides()), agent=GOAL)
    own = task.adapt(shared, M, np.random.default_rng(1000 + seed), careful=True)
    news: list[News] = []
    worker = LifeWorker(task, moved, shared, task.settings.inner_step_size, seed)
    life = Life(Habits(onboard=M, **habits), State())  # type: ignore[arg-type]
    store = LifeStore(None, PolicyFile(own, shared, {}), GOAL, seed)
    living = Living(life, worker, own, store, news.append, Stops())
    living.run()
    return own, living.params, news


def when(news: list[News], what: str) -> list[int]:
    """Episodes at which it happened."""
    return [each.episode for each in news if each.what == what]


def test_a_goal_that_moves_is_noticed_and_re_onboarding_restores_most_of_the_return(shared: F8) -> None:
    """In every life one alarm within 30 episodes; the return falls to a fifth, then to over half again."""
    here, there = (make_task(CONFIG, goal, Overrides()) for goal in (GOAL, MOVED))
    found = []
    for seed in SEEDS:
        own, after, news = lived(shared, seed, episodes=1000, change_at=CHANGE)
        (alarm,) = when(news, "alarm")
        assert CHANGE < alarm <= CHANGE + WITHIN
        assert len(when(news, "re-onboarding")) == 1
        found.append((worth(here, own), worth(there, own), worth(there, after)))
    before, fallen, restored = np.mean(found, axis=0)
    assert fallen < before / 4 and restored > before / 2
    assert all(life[2] > life[1] for life in found)


def test_a_goal_that_stays_rings_no_alarm(shared: F8) -> None:
    """None in 20 lives of 3,000 episodes; the stated run length is 10,000 or more."""
    alarms = [when(lived(shared, seed, episodes=UNCHANGED)[2], "alarm") for seed in SEEDS]
    assert alarms == [[]] * len(SEEDS)


def test_learning_goes_on_where_re_onboarding_ends(shared: F8) -> None:
    """With a tried step every 100 episodes the return is higher after 3,000 episodes, on average."""
    there = make_task(CONFIG, MOVED, Overrides())
    lives = [
        [lived(shared, seed, episodes=3000, change_at=CHANGE, learn=learn)[1] for learn in (0, 100)]
        for seed in range(5)
    ]
    still, learning = np.mean([[worth(there, params) for params in life] for life in lives], axis=0)
    assert learning > still + 0.3
