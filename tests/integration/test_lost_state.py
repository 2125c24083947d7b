"""An agent that lost its state: the real learner and the server's real decisions, replayed from records."""

from pathlib import Path

import msgspec
import numpy as np

from agent import events as work
from agent.learner import Learner
from edge_fed.config import Overrides
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.replay import replay
from protocol import messages as m
from tests.server.fleet import RUN, FakeAgent, Fleet, config

CONFIG = config(
    agents="0-3",
    rounds=7,
    correction="control_variate",
    participation=0.75,
    baseline="value",
    local_steps=2,
    inner_batch=3,
    outer_batch=3,
)


class Worker:
    """An agent process: its end of the session, and what it computes."""

    def __init__(self, agent: FakeAgent, folder: Path) -> None:
        self.agent = agent
        self._learner = Learner(agent.agent, Overrides(), folder)
        agent.register()
        built = self._learner.build(work.Build(1, msgspec.to_builtins(CONFIG), RUN))
        counted = agent.last(m.Welcome).last_counted
        tag = counted if counted in built.tags else 0
        agent.ready(stateful=built.stateful, state_tag=tag)

    def answer(self) -> None:
        """Computes the update that the newest THETA asks for."""
        theta, tensors = self.agent.last(m.Theta), self.agent.tensors
        train = work.Train(
            1,
            theta.round,
            tensors["params"],
            theta.last_counted,
            theta.state_reset,
            tensors["control"],
            theta.control_reset,
        )
        done = self._learner.train(train, lambda _step: None)
        fields = {"theta_crc32": theta.crc32, "trajectories": done.trajectories}
        self.agent.update_with(done.delta, round=theta.round, **fields)


def test_a_run_in_which_an_agent_lost_its_state_replays_to_the_same_bits(tmp_path: Path) -> None:
    """Each agent is told when its control variate is void, whenever it is asked next: so does the replay."""
    fleet = Fleet(CONFIG)
    workers = {k: Worker(fleet.agent(k), tmp_path / str(k)) for k in range(4)}
    fleet.evaluate()
    while len(fleet.saved) <= CONFIG.algorithm.rounds:
        number = len(fleet.saved)
        if number == 4:
            victim = fleet.record.contributors[0].agent
            fleet.gone.add(workers[victim].agent.peer)
            workers[victim] = Worker(fleet.agent(victim), tmp_path / "empty")
        for agent in fleet.machine.course.training.waiting():
            workers[agent].answer()
        assert len(fleet.saved) == number + 1
    records = [commit.record for commit in fleet.saved[1:] if isinstance(commit.record, RoundRecord)]
    resets = [record.round for record in records if record.state_resets]
    assert len(resets) == 1, "the reset counted once"
    zero = [bool(commit.control is not None and not commit.control.any()) for commit in fleet.saved]
    assert zero == [number in (0, *resets) for number in range(8)]
    assert [again.differences for again in replay(CONFIG, records)] == [()] * 7
    assert np.isfinite(fleet.saved[-1].params).all()
