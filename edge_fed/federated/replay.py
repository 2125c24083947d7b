"""Recomputes a run from its records and says where it differs: the mathematics behind `verify`.

Nothing stored is compared with itself: the cohort is drawn again from (seed, round, eligible), every
contributor's update is computed again, its checksum compared, and parameters and control variate are
folded again. Who had to be quarantined after the recorded refusals is judged again.
"""

from collections.abc import Iterable, Iterator

import msgspec

from edge_fed.config import Overrides, RunConfig, overrides_by_goal
from edge_fed.federated.control_variate import initial_control
from edge_fed.federated.local_update import AgentState
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import Attendance, RoundRecord
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.learner import Learner
from edge_fed.params import F8
from edge_fed.profiles import LOST, lost


class Replayed(msgspec.Struct, frozen=True):
    """One round, computed again.

    Attributes:
        round: Its number.
        params: The parameters after it, ``[d]``.
        differences: What differs, for people; empty if every bit agrees.
    """

    round: int
    params: F8
    differences: tuple[str, ...]


def replay(config: RunConfig, records: Iterable[RoundRecord]) -> Iterator[Replayed]:
    """Plays every recorded round again, in order, from the initial parameters."""
    tasks: dict[int, Learner] = {}
    working: dict[int, Overrides] = {}
    states: dict[int, AgentState] = {}
    planned = overrides_by_goal(config)
    params = initial_params(config)
    control = initial_control(config, params.size)
    quarantine = Quarantine(config.federation.quarantine_after)
    for expected, record in enumerate(records, start=1):
        if strangers := sorted(set(record.eligible) - planned.keys()):  # they have no task to compute with
            text = f"eligible {strangers} were recorded, but these agents are in no [[agents]] table"
            yield Replayed(record.round, params, (text,))
            return
        for agent in record.eligible:  # the cohort is drawn again from these, whatever was recorded
            overrides = record.overrides.get(agent, planned[agent])
            if working.get(agent) != overrides:
                tasks[agent] = make_learner(config, agent, overrides)
                working[agent] = overrides
        if record.round != expected:
            yield Replayed(record.round, params, (f"round {expected} is missing from the records",))
            return
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
        differences = (
            *_differences(record, again.record),
            *_found(config, record),
            *_strangers(record),
            *_unexplained(record),
        )
        yield Replayed(record.round, params, differences)


def _differences(recorded: RoundRecord, again: RoundRecord) -> Iterator[str]:
    if recorded.eligible != again.eligible:
        extra = sorted(set(recorded.eligible) - set(again.eligible))
        yield f"eligible {list(recorded.eligible)} were recorded, but {extra} are in quarantine"
    if recorded.cohort != again.cohort:
        yield f"cohort {list(recorded.cohort)} was recorded, {list(again.cohort)} is drawn"
    if recorded.outcome != again.outcome:
        yield f"outcome {recorded.outcome} was recorded, {again.outcome} follows from the updates"
    theirs = {c.agent: c for c in recorded.contributors}
    ours = {c.agent: c for c in again.contributors}
    if list(theirs) != list(ours):
        yield f"contributors {list(theirs)} were recorded, {list(ours)} are folded"
    for agent in theirs.keys() & ours.keys():
        if theirs[agent] != ours[agent]:
            yield f"agent {agent}: {_pair(theirs[agent], ours[agent])}"
    if recorded.quarantined != again.quarantined:
        yield f"quarantined {list(recorded.quarantined)} were recorded, {list(again.quarantined)} follow"
    for name in ("params_sha256", "control_sha256"):
        was, is_now = getattr(recorded, name), getattr(again, name)
        if was != is_now:
            yield f"{name} {_short(was)} was recorded, {_short(is_now)} is computed"


def _found(config: RunConfig, recorded: RoundRecord) -> Iterator[str]:
    """Updates that are recorded as lost on their way, but had to arrive."""
    strays = {agent for agent, why in recorded.missing.items() if why == LOST}
    if extra := sorted(strays - lost(config, recorded.round, recorded.cohort)):
        yield f"the updates of agents {extra} were recorded as lost on their way, none of them is drawn so"


def _strangers(recorded: RoundRecord) -> Iterator[str]:
    """Agents of which the record says what only an agent that was there can do."""
    for name in ("conflicts", "quarantined"):
        if extra := sorted(set(getattr(recorded, name)) - set(recorded.eligible)):
            yield f"{name} {extra} were recorded, but these agents were not eligible in that round"


def _unexplained(recorded: RoundRecord) -> Iterator[str]:
    """Excuses of agents that were not asked, and agents that were asked and neither counted nor excused."""
    if extra := sorted(set(recorded.missing) - set(recorded.cohort)):
        yield f"missing {extra} were recorded, but these agents are not in the cohort of that round"
    if recorded.outcome == "skipped":  # updates that came are neither counted nor missing
        return
    counted = {part.agent for part in recorded.contributors}
    if silent := sorted(set(recorded.cohort) - counted - recorded.missing.keys()):
        yield f"agents {silent} of the cohort were recorded neither as contributors nor as missing"
    if both := sorted(counted & recorded.missing.keys()):
        yield f"agents {both} were recorded as contributors and as missing"


def _short(digest: str) -> str:
    return f"{digest[:12]}…" if digest else "nothing"


def _pair(recorded: msgspec.Struct, again: msgspec.Struct) -> str:
    names = [n for n in recorded.__struct_fields__ if getattr(recorded, n) != getattr(again, n)]
    return ", ".join(
        f"{n} {getattr(recorded, n)} was recorded, {getattr(again, n)} is computed" for n in names
    )
