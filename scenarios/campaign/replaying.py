"""The record replays to the same bits, in two ways: by `verify`, and by the plain loop of the scenario."""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from agent.state_store import StateStore
from edge_fed.config import overrides_by_goal
from edge_fed.federated.cohort import cohort
from edge_fed.federated.control_variate import OWN, initial_control, reset_own
from edge_fed.federated.local_update import AgentState, initial_state
from edge_fed.federated.per_fedavg_pg import play_round
from edge_fed.federated.record import Attendance, RoundRecord
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.program.exit_codes import ProgramError
from scenarios.attendance import attendance, in_seconds
from scenarios.campaign.evidence import Evidence
from scenarios.plain import hashes
from scenarios.timeline import Scenario
from scenarios.verify import verify


def verifies(evidence: Evidence) -> Iterator[str]:
    """`verify` ends equal."""
    try:
        found = verify(evidence.folder.path)
    except ProgramError as error:
        yield f"verify: {error.message}"
        return
    if found.outcome != "equal":
        yield f"verify: {found.outcome} at round {found.round}: {'; '.join(found.differences)}"


def equals_the_plain_loop(evidence: Evidence) -> Iterator[str]:
    """The same record gives the same hashes: as the run without faults, or with these faults in the loop."""
    records = evidence.records
    twin = twin_of(evidence)
    expected = list(hashes(twin)) if twin else [record.params_sha256 for record, _ in _again(evidence)]
    for record, digest in zip(records, expected, strict=False):
        if record.params_sha256 != digest:
            how = "without faults" if twin and not twin.timeline else "with this attendance"
            yield f"round {record.round} has hash {record.params_sha256[:12]}…, {digest[:12]}… {how}"
            return


def twin_of(evidence: Evidence) -> Scenario | None:
    """A scenario whose plain loop has the same record: without faults, or with those of the timeline."""
    scenario = evidence.sequence.scenario
    seen = [_attended(scenario, _attendance(record)) for record in evidence.records]
    calm = msgspec.structs.replace(scenario, timeline=())
    for twin in (calm, scenario):
        if in_seconds(twin):
            continue
        planned = [_attended(scenario, day) for day in attendance(twin)]
        if planned[: len(seen)] == seen and not any(r.state_resets for r in evidence.records):
            return twin
    return None


def _attended(scenario: Scenario, day: Attendance) -> tuple[tuple[int, ...], tuple[int, ...]]:
    asked = cohort(scenario.seed, day.round, day.eligible, scenario.algorithm.participation)
    return day.eligible, tuple(a for a in asked if day.present is None or a in day.present)


def _attendance(record: RoundRecord) -> Attendance:
    present = frozenset(set(record.cohort) - set(record.missing))
    return Attendance(record.round, record.eligible, present, record.state_resets)


def _again(evidence: Evidence) -> Iterator[tuple[RoundRecord, dict[int, AgentState]]]:
    """Every round in the plain loop with the recorded attendance, and the agents' states after it."""
    config = evidence.config
    tasks = {goal: make_learner(config, goal, own) for goal, own in overrides_by_goal(config).items()}
    params = initial_params(config)
    states: dict[int, AgentState] = {}
    control = initial_control(config, params.size)
    for record in evidence.records:
        outcome = play_round(config, tasks, params, states, _attendance(record), control)
        params, control = outcome.params, outcome.control
        yield outcome.record, states


def agents_hold_their_state(evidence: Evidence) -> Iterator[str]:
    """Each agent's folder holds the state after its newest counted update, to the bit; and few others."""
    states: Mapping[int, AgentState] = next((after for _, after in reversed(list(_again(evidence)))), {})
    counted = {part.agent: record.round for record in evidence.records for part in record.contributors}
    restarted = max((record.round for record in evidence.records if record.state_resets), default=0)
    for agent, own in overrides_by_goal(evidence.config).items():
        store = StateStore.of_agent(evidence.folder.agents, evidence.folder.run_id, agent)
        tags = sorted(store.tags())
        if len(tags) > 2:
            yield f"agent {agent} keeps the states of rounds {tags}: at most two can matter"
        if agent not in counted or not initial_state(make_learner(evidence.config, agent, own)):
            continue
        held = store.get(counted[agent])
        if held is None:
            yield f"agent {agent} was counted in round {counted[agent]}, and holds states of {tags} only"
            continue
        if counted[agent] <= restarted and OWN in held:
            held = reset_own(held)
        for name, array in states[agent].items():
            if not np.array_equal(array, held.get(name, np.empty(0))):
                yield f"agent {agent} holds another {name} after round {counted[agent]} than the plain loop"
