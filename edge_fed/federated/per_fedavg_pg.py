"""Per-FedAvg-PG as the paper states it: a plain loop, no network. The oracle of every networked run.

    for k = 1..K:
        choose the cohort A_k among the agents present and available
        for each i in A_k, in parallel on real devices:
            theta_i <- theta;  tau times: theta_i <- theta_i + beta * meta-gradient_i(theta_i)
            send delta_i = theta_i - theta
        theta <- theta + (weighted) mean of delta_i, or another rule of `edge_fed.federated.robust`

Source: Per-FedAvg-PG (the paper), algorithm box, with client sampling as in Fallah et al. 2020. With
``correction = "control_variate"`` local steps and server keep what `edge_fed.federated.control_variate` says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from edge_fed.config import RunConfig, max_norm, overrides_by_goal
from edge_fed.errors import NonFinite, UpdateRefused
from edge_fed.federated.aggregation import Fold, check_update, own_weights
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.control_variate import ServerControl, initial_control, reset_own
from edge_fed.federated.ending import all_quarantined, last_refusal, too_many_skipped
from edge_fed.federated.local_update import AgentState, LocalUpdate, initial_state
from edge_fed.federated.privacy import private_update
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import Attendance, Contribution, RoundRecord
from edge_fed.federated.robust import Aggregator, aggregator, needed_updates
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.learner import Learner
from edge_fed.params import F8, crc32, params_sha256
from edge_fed.profiles import LOST, lost

Progress = Callable[[int], None]


class Round(msgspec.Struct, frozen=True):
    """A round's outcome.

    Attributes:
        record: What decided it.
        params: The parameters after it, ``[d]``.
        metrics: Each contributor's metrics.
        control: The server's half of the correction after it; None: the run has none.
        ends: Why the run ends after it, before its time; empty: it goes on.
    """

    record: RoundRecord
    params: F8
    metrics: dict[int, dict[str, float]]
    control: ServerControl | None = None
    ends: str = ""


def per_fedavg_pg(
    config: RunConfig,
    tasks: Mapping[int, Learner],
    params: F8,
    rounds: Iterable[Attendance],
    secret: bytes | None = None,
) -> Iterator[Round]:
    """Yields every round of a run, until it ends or has nobody to ask: where the server ends or gives up.

    Args:
        config: The run's settings.
        tasks: What each planned agent owns.
        params: Initial parameters, ``[d]``.
        rounds: Who is there; `full_attendance` if nobody comes or goes.
        secret: Of the private noise, 32 bytes that belong to this run alone; None: it has no noise.
    """
    states: dict[int, AgentState] = {}
    control = initial_control(config, params.size)
    quarantine = Quarantine(config.federation.quarantine_after)
    skipped = 0
    for attendance in rounds:
        if not quarantine.admitted(attendance.eligible):
            return
        outcome = play_round(config, tasks, params, states, attendance, control, quarantine, secret)
        params, control = outcome.params, outcome.control
        skipped = skipped + 1 if outcome.record.outcome == "skipped" else 0
        ends = all_quarantined(quarantine.agents, tasks, last_refusal(outcome.record))
        ends = ends or too_many_skipped(skipped)
        yield msgspec.structs.replace(outcome, ends=ends)
        if ends:
            return


def train(config: RunConfig) -> Iterator[Round]:
    """A whole run in which every planned agent is there in every round; the bits are those of a fleet.

    Args:
        config: The run's settings, checked (`edge_fed.load_config` does).
    """
    learners = {goal: make_learner(config, goal, own) for goal, own in overrides_by_goal(config).items()}
    days = full_attendance(learners, config.algorithm.rounds)
    return per_fedavg_pg(config, learners, initial_params(config), days)


def full_attendance(agents: Iterable[int], rounds: int) -> Iterator[Attendance]:
    """Everybody is there in every round."""
    eligible = tuple(sorted(agents))
    return (Attendance(round=k, eligible=eligible) for k in range(1, rounds + 1))


def play_round(
    config: RunConfig,
    tasks: Mapping[int, Learner],
    params: F8,
    states: dict[int, AgentState],
    attendance: Attendance,
    control: ServerControl | None = None,
    quarantine: Quarantine | None = None,
    secret: bytes | None = None,
) -> Round:
    """Plays one round; ``states`` advances in place for the agents whose update counted.

    An agent's state advances only if its update is folded in a valid round: what never counted never
    happened (semantics of agent state). ``control`` is the server's half of the run's correction, None
    exactly if it has none. ``quarantine`` counts the round's refusals in place; None: there were none before.
    ``secret`` is needed for private noise; the loop's agents share it.
    """
    k, seed = attendance.round, config.seed
    quarantine = quarantine or Quarantine()
    eligible = quarantine.admitted(attendance.eligible)
    asked = round_cohort(config, k, eligible)
    strays = lost(config, k, asked)
    came = asked if attendance.present is None else attendance.present
    present = [i for i in asked if i in came and i not in strays]
    for agent in attendance.state_resets:
        states.pop(agent, None)
    missing = {i: attendance.reasons.get(i, "absent") for i in asked if i not in present}
    missing.update(dict.fromkeys(strays, LOST))
    updates: dict[int, LocalUpdate] = {}
    c = None if control is None else control.value
    for i in present:
        state = states.get(i) or initial_state(tasks[i])
        try:
            update = private_update(
                tasks[i], params, state, seed, k, _silent, c, privacy=config.privacy, secret=secret
            )
            check_update(update.delta, params.size, max_norm(config.federation))
        except UpdateRefused as error:  # its step diverged, say: it is excused, as the server excuses it
            missing[i] = f"refused: {error}"
        else:
            updates[i] = update
    folded = _fold(config, params, control, updates, needed_updates(config, len(asked)))
    contributors: tuple[Contribution, ...] = ()
    if folded is not None:
        params, control, contributors = folded
        states.update((i, update.state) for i, update in updates.items())
    if control is not None and attendance.state_resets:
        control = control.restarted()
        states.update({i: reset_own(state) for i, state in states.items()})
    record = RoundRecord(
        round=k,
        eligible=eligible,
        cohort=asked,
        contributors=contributors,
        missing=missing,
        state_resets=attendance.state_resets,
        outcome="skipped" if folded is None else "folded",
        params_sha256=params_sha256(params),
        control_sha256="" if control is None else params_sha256(control.value),
        conflicts=attendance.conflicts,
        private_noise=config.privacy.noisy,
    )
    record = msgspec.structs.replace(record, quarantined=quarantine.judge(record))
    return Round(record, params, {i: update.metrics for i, update in updates.items()}, control)


def _fold(
    config: RunConfig,
    params: F8,
    control: ServerControl | None,
    updates: Mapping[int, LocalUpdate],
    need: int,
) -> tuple[F8, ServerControl | None, tuple[Contribution, ...]] | None:
    """The next parameters, the next control variate, and who made them; None: the round is skipped."""
    if len(updates) < need:
        return None
    fold = aggregator(params, config.algorithm, own_weights(config))
    contributors = tuple(_contribute(fold, i, update) for i, update in updates.items())
    try:
        params = fold.result()
        if control is not None:
            assert isinstance(fold, Fold)  # `check_run`: a correction needs the mean
            control = control.after(fold)
    except NonFinite:
        return None
    return params, control, contributors


def _contribute(fold: Aggregator, agent: int, update: LocalUpdate) -> Contribution:
    weight = fold.add(agent, update.delta, update.trajectories)
    return Contribution(agent, crc32(update.delta), weight, update.trajectories)


def _silent(_step: int) -> None:
    pass
