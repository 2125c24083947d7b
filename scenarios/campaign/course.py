"""The rounds are exactly 1 to K, or the run ended with a documented code and a named reason. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from edge_fed.federated.record import RoundRecord
from edge_fed.program.exit_codes import ExitCode
from scenarios.campaign.evidence import Evidence

BESIDE = {"schema", "seconds", "arrivals", "bytes_sent", "bytes_received", "metrics"}
NAMED = ("agents are here", "rounds in a row had too few updates")
"""What the two ends for too few agents say."""
_HERE = re.compile(r"(\d+) training agents are here")


def lines_are_whole(evidence: Evidence) -> Iterator[str]:
    """Each line of ``metrics.jsonl`` is a whole JSON object with every key."""
    keys = {*RoundRecord.__struct_fields__, *BESIDE}
    for number, raw in enumerate(evidence.metrics, start=1):
        if not raw.endswith(b"\n"):
            yield f"line {number} of metrics.jsonl has no end"
        try:
            row = json.loads(raw)
            msgspec.convert(row, RoundRecord, strict=False)
        except (ValueError, msgspec.ValidationError) as error:
            yield f"line {number} of metrics.jsonl: {error}"
            continue
        if missing := keys - set(row):
            yield f"line {number} of metrics.jsonl lacks {', '.join(sorted(missing))}"


def rounds_are_complete(evidence: Evidence) -> Iterator[str]:
    """1 to K in order; fewer only if the run ended for too few agents, and says so."""
    numbers = [row["round"] for row in evidence.lines]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the rounds are {numbers}"
    code, problem = evidence.end
    planned = evidence.config.algorithm.rounds
    if code == ExitCode.OK and len(numbers) != planned:
        yield f"the run ended well after {len(numbers)} of {planned} rounds"
    elif code == ExitCode.QUORUM and not any(name in problem for name in NAMED):
        yield f"the run ended for too few agents without saying which: {problem}"
    elif code == ExitCode.QUORUM and numbers and (here := _HERE.search(problem)) and int(here[1]):
        yield f"the run had begun, and ended although somebody was there: {problem}"
    elif code not in (ExitCode.OK, ExitCode.QUORUM):
        yield f"the run ended with code {code}: {problem or 'without a reason'}"


def summary_agrees(evidence: Evidence) -> Iterator[str]:
    """``summary.json`` says what the records say."""
    summary, lines = evidence.summary, evidence.lines
    if not summary:
        yield "there is no summary.json"
        return
    work: Counter[str] = Counter()
    for record in evidence.records:
        work.update({str(part.agent): part.trajectories for part in record.contributors})
    code = evidence.end[0]
    if code not in (ExitCode.OK, ExitCode.QUORUM):
        return  # that the runner gave up is a finding of its own
    found = {
        "rounds": (summary["rounds"], len(lines)),
        "exit_code": (summary["exit_code"], code),
        "outcome": (summary["outcome"], "finished" if code == 0 else "failed"),
        "trajectories": (summary["trajectories"], dict(work)),
    }
    if lines:
        found["params_sha256"] = (summary["params_sha256"], lines[-1]["params_sha256"])
    for name, (said, expected) in found.items():
        if said != expected:
            yield f"summary.json has {name} {said}, not {expected}"


def missing_have_a_cause(evidence: Evidence) -> Iterator[str]:
    """Whoever is missing in a round is missing for something that was drawn, or for time."""
    for record in evidence.records:
        for agent, reason in record.missing.items():
            if reason.startswith(("refused", "error", "quarantined")):
                yield f"agent {agent} is missing in round {record.round}: {reason}"
            elif reason == "lost" and not (_mortal(evidence, agent) or evidence.cut):
                yield f"agent {agent} died in round {record.round}, and nothing had killed it"


def _mortal(evidence: Evidence, agent: int) -> bool:
    timeline = evidence.sequence.scenario.timeline
    return any(action.do in ("kill", "restart") and str(action.who) == str(agent) for action in timeline)
