"""Per-FedAvg-PG as the paper states it: a plain loop, no network. The oracle of every networked run.

    for k = 1..K:
        choose the cohort A_k among the agents present
        for each i in A_k, in parallel on real devices:
            theta_i <- theta;  tau times: theta_i <- theta_i + beta * meta-gradient_i(theta_i)
            send delta_i = theta_i - theta
        theta <- theta + (weighted) mean of delta_i

Source: Per-FedAvg-PG (the paper), algorithm box, with client sampling as in Fallah et al. 2020.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from edge_fed.config import RunConfig
from edge_fed.errors import NonFinite
from edge_fed.federated.aggregation import Fold
from edge_fed.federated.cohort import cohort, minimum_updates
from edge_fed.federated.local_update import AgentState, LocalUpdate, initial_state, local_update
from edge_fed.federated.record import Attendance, Contribution, RoundRecord
from edge_fed.federated.task import Task
from edge_fed.params import F8, crc32, params_sha256

Progress = Callable[[int], None]


class Round(msgspec.Struct, frozen=True):
    """A round's outcome.

    Attributes:
        record: What decided it.
        params: The parameters after it, ``[d]``.
        metrics: Each contributor's metrics.
    """

    record: RoundRecord
    params: F8
    metrics: dict[int, dict[str, float]]


def per_fedavg_pg(
    config: RunConfig, tasks: Mapping[int, Task], params: F8, rounds: Iterable[Attendance]
) -> Iterator[Round]:
    """Yields every round of a run.

    Args:
        config: The run's settings.
        tasks: Each agent's environment, policy and settings.
        params: Initial parameters, ``[d]``.
        rounds: Who is there; `full_attendance` if nobody comes or goes.
    """
    states: dict[int, AgentState] = {}
    for attendance in rounds:
        outcome = play_round(config, tasks, params, states, attendance)
        params = outcome.params
        yield outcome


def full_attendance(agents: Iterable[int], rounds: int) -> Iterator[Attendance]:
    """Everybody is there in every round."""
    eligible = tuple(sorted(agents))
    return (Attendance(round=k, eligible=eligible) for k in range(1, rounds + 1))


def play_round(
    config: RunConfig,
    tasks: Mapping[int, Task],
    params: F8,
    states: dict[int, AgentState],
    attendance: Attendance,
) -> Round:
    """Plays one round; ``states`` advances in place for the agents whose update counted.

    An agent's state advances only if its update is folded in a valid round: what never counted never
    happened (semantics of agent state).
    """
    k, seed = attendance.round, config.seed
    asked = cohort(seed, k, attendance.eligible, config.algorithm.participation)
    present = [i for i in asked if attendance.present is None or i in attendance.present]
    for agent in attendance.state_resets:
        states.pop(agent, None)
    missing = {i: "absent" for i in asked if i not in present}
    updates: dict[int, LocalUpdate] = {}
    for i in present:
        state = states.get(i) or initial_state(tasks[i])
        try:
            updates[i] = local_update(tasks[i], params, state, seed, k, _silent)
        except NonFinite as error:  # one agent's step diverged: it is excused, as the server excuses it
            missing[i] = f"refused: {error}"
    folded = _fold(config, params, updates, minimum_updates(len(asked), config.federation.min_updates))
    contributors: tuple[Contribution, ...] = ()
    if folded is not None:
        params, contributors = folded
        states.update((i, update.state) for i, update in updates.items())
    record = RoundRecord(
        round=k,
        eligible=attendance.eligible,
        cohort=asked,
        contributors=contributors,
        missing=missing,
        state_resets=attendance.state_resets,
        outcome="skipped" if folded is None else "folded",
        params_sha256=params_sha256(params),
    )
    return Round(record, params, {i: update.metrics for i, update in updates.items()})


def _fold(
    config: RunConfig, params: F8, updates: Mapping[int, LocalUpdate], need: int
) -> tuple[F8, tuple[Contribution, ...]] | None:
    """The next parameters and who made them; None: the round is skipped."""
    if len(updates) < need:
        return None
    fold = Fold(params, config.algorithm.aggregation)
    contributors = tuple(_contribute(fold, i, update) for i, update in updates.items())
    try:
        return fold.result(), contributors
    except NonFinite:
        return None


def _contribute(fold: Fold, agent: int, update: LocalUpdate) -> Contribution:
    weight = fold.add(agent, update.delta, update.trajectories)
    return Contribution(agent, crc32(update.delta), weight, update.trajectories)


def _silent(_step: int) -> None:
    pass
