"""What a sequence showed, and what all of them showed together. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from scenarios.campaign.checks import CHECKS, Finding
from scenarios.campaign.evidence import Evidence
from scenarios.campaign.replaying import twin_of

MEANINGS = {
    "<action> agent|server [how]": "an action as drawn; how: its point, signal or kind of fault. What falls "
    "in seconds after a run's end did not happen",
    "all programs ended by TERM|KILL": "the runner was stopped, or everything died at once; the run is then "
    "gone on with",
    "programs ended by SIGKILL": "processes that died so, drawn or not",
    "server processes": "one per sequence, and one per restart of the server",
    "rounds": "committed",
    "rounds skipped": "of them with too few updates; the parameters stay as they were",
    "updates counted": "updates that were folded into a round",
    "excused: <reason>": "updates that a round went on without: lost (the agent's death is known), lease (it "
    "was silent), bye, deadline, refused, not back after the restart of the server, ...",
    "state resets": "agents that started a round without their state",
    "compared with <what>": "sequences by what every hash was compared with: the run without faults (all "
    "were there in every round), the loop with the timeline (it alone decided who was there), or the record "
    "(who was there, as recorded)",
}
"""What the counts of a report are, by name; in <> and behind | stand what differs."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence.

    Attributes:
        seed: It replays.
        seconds: From the start of its process to its verdict.
        counts: What was drawn and what happened, by name; `counts_of` says which.
        end: How the run ended: ``finished``, ``too few agents``, or the reason.
        findings: What is wrong.
        folder: The run folder, if it was kept.
    """

    seed: int
    seconds: float = 0.0
    counts: dict[str, int] = {}
    end: str = ""
    findings: tuple[Finding, ...] = ()
    folder: str = ""


def counts_of(evidence: Evidence) -> dict[str, int]:
    """Counts of one sequence: actions by kind, rounds, excuses by reason, and how it could be compared."""
    found: Counter[str] = Counter({"server processes": len(evidence.lives())})
    for action in evidence.sequence.scenario.timeline:
        who = "server" if action.who == "server" else "agent"
        how = next((action.args[name] for name in ("point", "signal", "kind") if name in action.args), "")
        found[" ".join(filter(None, (action.do, who, str(how))))] += 1
    for row in evidence.diary:
        if row["what"] == "cut":
            found[f"all programs ended by {row['how']}"] += 1
        elif row["what"] == "ended" and row["code"] == -9:
            found["programs ended by SIGKILL"] += 1
    for record in evidence.records:
        found["rounds"] += 1
        found["updates counted"] += len(record.contributors)
        found["rounds skipped"] += record.outcome == "skipped"
        found["state resets"] += len(record.state_resets)
        for reason in record.missing.values():
            found[f"excused: {reason.split(':')[0]}"] += 1
    twin = twin_of(evidence)
    calm = twin is not None and not twin.timeline
    compared = "the run without faults" if calm else "the loop with the timeline" if twin else "the record"
    found[f"compared with {compared}"] += 1
    return {name: count for name, count in sorted(found.items()) if count}


def in_all(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """The sum of all counts, by name."""
    total: Counter[str] = Counter()
    for verdict in verdicts:
        total.update(verdict.counts)
    return dict(sorted(total.items()))


def as_json(verdicts: Sequence[Verdict], seconds: float) -> dict[str, Any]:
    """The object that ``--json`` prints; its keys are a contract."""
    slowest = sorted(verdicts, key=lambda verdict: -verdict.seconds)[:5]
    ends = Counter(verdict.end for verdict in verdicts)
    return {
        "success": not any(verdict.findings for verdict in verdicts),
        "sequences": len(verdicts),
        "seeds": [verdict.seed for verdict in verdicts],
        "seconds": round(seconds, 1),
        "ends": dict(ends.most_common()),
        "counts": in_all(verdicts),
        "checks": list(CHECKS),
        "findings": [
            {"seed": verdict.seed, "replay": replay(verdict.seed), **msgspec.to_builtins(finding)}
            for verdict in verdicts
            for finding in verdict.findings
        ],
        "slowest": [{"seed": verdict.seed, "seconds": round(verdict.seconds, 1)} for verdict in slowest],
    }


def replay(seed: int) -> str:
    """The command that runs a sequence again and keeps what it leaves."""
    return f"python -m scenarios campaign --seed {seed} --keep runs/campaign"
