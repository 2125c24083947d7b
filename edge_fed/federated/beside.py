"""Simulated agents beside devices: their updates computed again from the parameters that checkpoints keep.

A round with a device cannot be folded again: nobody else can play its episodes. But an update depends on its
round's parameters and its own agent's state alone, so those of the others can be compared to the bit. Where
the parameters of a round are not kept, or an agent's earlier work was a device's, its state is not known; it
is compared again once it has started from its initial state.
"""

from collections.abc import Iterator

from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.errors import EdgeFedError
from edge_fed.federated.control_variate import reset_own
from edge_fed.federated.local_update import AgentState, initial_state
from edge_fed.federated.privacy import private_update
from edge_fed.federated.record import Contribution, RoundRecord
from edge_fed.federated.task import make_learner
from edge_fed.learner import Learner
from edge_fed.params import F8, crc32


class Beside:
    """Goes through the records of a run in order.

    Args:
        config: The run's settings, without private noise.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._planned = overrides_by_goal(config)
        self._states: dict[int, AgentState | None] = {}  # None: not known
        self._tasks: dict[int, tuple[Overrides, Learner]] = {}

    def faults(self, record: RoundRecord, params: F8 | None, control: F8 | None) -> Iterator[str]:
        """What the next record says of updates that does not follow.

        Args:
            record: Of the round.
            params: Of the round, before it, ``[d]``; None: not kept.
            control: c of the round, ``[d]``; None: the run has no correction, or it is not kept.
        """
        for agent in record.state_resets:
            self._states.pop(agent, None)
        for part in record.contributors:
            overrides = record.overrides.get(part.agent, self._planned.get(part.agent))
            if overrides is None or part.agent not in self._planned:
                continue  # a stranger: `edge_fed.federated.chain` says so
            if overrides.device is not None and part.agent in record.overrides:
                self._states[part.agent] = None
                continue
            try:
                yield from self._compared(record.round, part, overrides, params, control)
            except (EdgeFedError, TypeError, ValueError) as error:
                yield f"agent {part.agent} cannot be computed again: {error}"
        if record.state_resets and self._config.algorithm.correction != "none":
            self._states = {agent: state and reset_own(state) for agent, state in self._states.items()}

    def _compared(
        self, round_: int, part: Contribution, overrides: Overrides, params: F8 | None, control: F8 | None
    ) -> Iterator[str]:
        task = self._task(part.agent, overrides)
        state = self._states.get(part.agent, initial_state(task))
        if not initial_state(task):
            state = {}
        if params is None or state is None:
            self._states[part.agent] = None
            return
        config = self._config
        update = private_update(
            task, params, state, config.seed, round_, _silent, control, privacy=config.privacy, secret=None
        )
        self._states[part.agent] = update.state
        found = {"crc32": crc32(update.delta), "trajectories": update.trajectories}
        for name, value in found.items():
            if getattr(part, name) != value:
                was = getattr(part, name)
                yield f"agent {part.agent}: {name} {was} was recorded, {value} is computed"

    def _task(self, agent: int, overrides: Overrides) -> Learner:
        if agent not in self._tasks or self._tasks[agent][0] != overrides:
            self._tasks[agent] = overrides, make_learner(self._config, agent, overrides)
        return self._tasks[agent][1]


def _silent(_step: int) -> None:
    pass
