"""What a run behind a fault showed: one visible table of checks. Pure."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scenarios.timeline import Scenario, agents_of

Line = Mapping[str, Any]
SILENT_S = 10.0  # the runner names its wait every 2 s; the rest is a loaded machine's
RECORD = ("eligible", "cohort")


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What one run left.

    Attributes:
        name: Of the suite.
        scenario: What was run.
        code: Exit code.
        problem: Why it failed; empty if it did not.
        unmet: Expectations of the scenario that are not met, for people.
        rounds: Lines of the committed rounds.
        calm: The same of the plain loop without the faults.
        summary: Of the server.
        agents: What the proxies did, by agent: ``connections`` and ``done``.
        problems: Why a proxy closed a connection by itself.
        verified: What verify said.
        news: When the runner said something, in seconds.
        seconds: From start to end.
    """

    name: str
    scenario: Scenario
    code: int
    problem: str
    unmet: tuple[str, ...]
    rounds: Sequence[Line]
    calm: Sequence[Line]
    summary: Mapping[str, Any]
    agents: Mapping[str, Any]
    problems: tuple[str, ...]
    verified: str
    news: tuple[float, ...]
    seconds: float

    @property
    def disturbed(self) -> set[int]:
        """Agents that the scenario disturbs."""
        return {agent for a in self.scenario.timeline if a.do == "fault" for agent in agents_of(a)}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the suite; the keys are those of ``--json``.

    Attributes:
        excused: Round -> agent -> reason.
        acted: What the faults did, and how often, all agents.
        reconnects: Connections after the first, of all disturbed agents.
        copies_refused: Messages and updates that came more than once.
        same_bits: Whether every hash is that of the run without faults.
        findings: What is wrong; empty: passed.
    """

    name: str
    rounds: int
    excused: dict[int, dict[str, str]]
    acted: dict[str, int]
    reconnects: int
    copies_refused: int
    same_bits: bool
    seconds: float
    findings: tuple[str, ...]


def judge(evidence: Evidence) -> Verdict:
    """Applies every check."""
    acted: dict[str, int] = {}
    for one in evidence.agents.values():
        for what, times in one["done"].items():
            acted[what] = acted.get(what, 0) + times
    return Verdict(
        name=evidence.name,
        rounds=len(evidence.rounds),
        excused={line["round"]: dict(line["missing"]) for line in evidence.rounds if line["missing"]},
        acted=acted,
        reconnects=sum(max(0, one["connections"] - 1) for one in evidence.agents.values()),
        copies_refused=evidence.summary.get("stale", 0) + evidence.summary.get("duplicates", 0),
        same_bits=_hashes(evidence.rounds) == _hashes(evidence.calm),
        seconds=round(evidence.seconds, 1),
        findings=tuple(text for check in CHECKS.values() for text in check(evidence)),
    )


def _ends(evidence: Evidence) -> Iterator[str]:
    """The run completes, and what its scenario expects holds."""
    if evidence.code != 0 and not evidence.unmet:
        yield f"the run ended with exit code {evidence.code}: {evidence.problem}"
    yield from (f"expected {text}" for text in evidence.unmet)
    yield from evidence.problems


def _acted(evidence: Evidence) -> Iterator[str]:
    """Every agent that should have been disturbed was: a fault that never acts proves nothing."""
    for agent in sorted(evidence.disturbed):
        if not evidence.agents.get(str(agent), {}).get("done"):
            yield f"no fault acted on agent {agent}"


def _complete(evidence: Evidence) -> Iterator[str]:
    """Who was asked either counts once or is missing with a reason, and only who was disturbed is."""
    for line in evidence.rounds:
        counted = [part["agent"] for part in line["contributors"]]
        missing = {int(agent): reason for agent, reason in line["missing"].items()}
        if line["outcome"] == "folded" and sorted([*counted, *missing]) != sorted(line["cohort"]):
            asked = line["cohort"]
            yield f"round {line['round']}: asked {asked}, counted {counted}, missing {sorted(missing)}"
        for agent, reason in missing.items():
            if not reason:
                yield f"round {line['round']}: agent {agent} is missing without a reason"
            elif agent not in evidence.disturbed:
                yield f"round {line['round']}: agent {agent} was excused ({reason}), and nothing disturbed it"


def _same_bits(evidence: Evidence) -> Iterator[str]:
    """As long as the records are those of the run without faults, so are the parameters."""
    for line, calm in zip(evidence.rounds, evidence.calm, strict=False):
        if _record(line) != _record(calm):
            return
        if line["params_sha256"] != calm["params_sha256"]:
            yield f"round {line['round']} has the record of the run without faults and other parameters"
            return


def _verified(evidence: Evidence) -> Iterator[str]:
    """The record replays to the same bits."""
    if evidence.verified != "equal":
        yield f"verify: {evidence.verified}"


def _spoken(evidence: Evidence) -> Iterator[str]:
    """No wait of the run was silent."""
    gaps = [after - before for before, after in itertools.pairwise(evidence.news)]
    if max(gaps, default=0.0) > SILENT_S:
        yield f"nothing was said for {max(gaps):.1f} s"


CHECKS: dict[str, Callable[[Evidence], Iterator[str]]] = {
    "ends": _ends,
    "acted": _acted,
    "complete": _complete,
    "same bits": _same_bits,
    "verified": _verified,
    "spoken": _spoken,
}
"""Every check by name."""


def _record(line: Line) -> tuple[Any, ...]:
    """What decides a round's bits: who was asked and who counted."""
    return (*(list(line[key]) for key in RECORD), [part["agent"] for part in line["contributors"]])


def _hashes(lines: Sequence[Line]) -> list[str]:
    return [line["params_sha256"] for line in lines]
