"""Recomputes a run from its records and says where it differs: the mathematics behind `verify`.

Nothing stored is compared with itself: the cohort is drawn again from (seed, round, eligible), every
contributor's update is computed again, its checksum compared, and parameters and control variate are
folded again. Who had to be quarantined after the recorded refusals is judged again.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.errors import EdgeFedError
from edge_fed.federated.chain import Chain, short
from edge_fed.federated.control_variate import initial_control
from edge_fed.federated.local_update import AgentState
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import Attendance, RoundRecord
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.learner import Learner
from edge_fed.params import F8, params_sha256


class Replayed(msgspec.Struct, frozen=True):
    """One round, computed again.

    Attributes:
        round: Its number.
        params: The parameters after it, ``[d]``.
        differences: What differs, for people; empty if every bit agrees.
        metrics: Of each update, by agent; empty if nothing could be computed.
    """

    round: int
    params: F8
    differences: tuple[str, ...]
    metrics: Mapping[int, Mapping[str, float]] = {}


def replay(config: RunConfig, records: Iterable[RoundRecord]) -> Iterator[Replayed]:
    """Plays every recorded round again, in order, from the initial parameters."""
    tasks: dict[int, Learner] = {}
    working: dict[int, Overrides] = {}
    states: dict[int, AgentState] = {}
    planned = overrides_by_goal(config)
    params = initial_params(config)
    control = initial_control(config, params.size)
    quarantine = Quarantine(config.federation.quarantine_after)
    chain = Chain(config, params_sha256(params))
    for record in records:
        if why := chain.ends(record):
            yield Replayed(record.round, params, (why,))
            return
        for agent in record.eligible:  # the cohort is drawn again from these, whatever was recorded
            overrides = record.overrides.get(agent, planned[agent])
            if working.get(agent) == overrides:
                continue
            try:
                tasks[agent] = make_learner(config, agent, overrides)
            except (EdgeFedError, TypeError, ValueError) as error:
                yield Replayed(record.round, params, (f"agent {agent} cannot be computed again: {error}",))
                return
            working[agent] = overrides
        folded = record.outcome == "folded"
        attendance = Attendance(
            round=record.round,
            eligible=record.eligible,
            # Who was asked but not counted is known; a skipped round changes nothing, so none is computed.
            present=frozenset(c.agent for c in record.contributors) if folded else frozenset(),
            state_resets=record.state_resets,
            reasons=record.missing,
            conflicts=record.conflicts,
        )
        again = play_round(config, tasks, params, states, attendance, control, quarantine)
        params, control = again.params, again.control
        differences = (*chain.faults(record), *_differences(record, again.record))
        yield Replayed(record.round, params, differences, again.metrics)


def _differences(recorded: RoundRecord, again: RoundRecord) -> Iterator[str]:
    if recorded.outcome != again.outcome:
        yield f"outcome {recorded.outcome} was recorded, {again.outcome} follows from the updates"
    theirs = {c.agent: c for c in recorded.contributors}
    ours = {c.agent: c for c in again.contributors}
    if list(theirs) != list(ours):
        yield f"contributors {list(theirs)} were recorded, {list(ours)} are folded"
    for agent in theirs.keys() & ours.keys():
        if theirs[agent] != ours[agent]:
            yield f"agent {agent}: {_pair(theirs[agent], ours[agent])}"
    for name in ("params_sha256", "control_sha256"):
        was, is_now = getattr(recorded, name), getattr(again, name)
        if was != is_now:
            yield f"{name} {short(was)} was recorded, {short(is_now)} is computed"


def _pair(recorded: msgspec.Struct, again: msgspec.Struct) -> str:
    names = [n for n in recorded.__struct_fields__ if getattr(recorded, n) != getattr(again, n)]
    return ", ".join(
        f"{n} {getattr(recorded, n)} was recorded, {getattr(again, n)} is computed" for n in names
    )
