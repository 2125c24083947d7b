"""No wait without a name, no trace in a log, no program that ends with an undocumented code. Pure."""

import itertools
import re
from collections.abc import Iterator

from edge_fed.program.exit_codes import ExitCode
from scenarios.actions import SERVER
from scenarios.campaign.evidence import Evidence, LogLine, Row

SILENT_S = 10.0  # 2 s are promised, the rest is the machine's: up to 40 programs share its cores
NAMED_S = 20.0  # a wait that is named is named again every 10 s
SERVER_WAITS = re.compile(r"waiting for .+: \d+ s left, then .+")
AGENT_WAITS = re.compile(
    r"waiting for (a server|the server to come back|an answer of the server) at \S+: \d+ s, giving up .+"
    r"|waiting for a sign of life of the server: \d+ s, registering again after \d+ s"
    r"|waiting for the server: \d+ s; .+"
)
NOBODY = ("the supervisor's word", "any training agent")  # names of waits that need no list
DOCUMENTED = frozenset(int(code) for code in ExitCode)
ORDERLY = {ExitCode.OK, ExitCode.STOPPED, ExitCode.TERMINATED, ExitCode.INTERRUPTED}


def logs_are_ours(evidence: Evidence) -> Iterator[str]:
    """Every line comes from a program's logger, and none is a trace or an error."""
    for line in evidence.logs:
        if line.raw:
            yield f"{line.program}.log has a line that no program wrote: {line.text[:200]}"
        elif "exception" in line.fields or "trace" in line.fields or "Traceback" in line.text:
            yield f"{line.program} failed: {line.text[:200]}"
        elif line.fields.get("level") == "error" and not line.text.startswith("exit: "):
            yield f"{line.program} reports an error: {line.text[:200]}"


def waits_are_named(evidence: Evidence) -> Iterator[str]:
    """Each line about a wait says for whom, and what ends it."""
    for line in evidence.logs:
        if not line.text.startswith("waiting for"):
            continue
        if line.program != SERVER:
            if not AGENT_WAITS.fullmatch(line.text):
                yield f"{line.program} waits without a name: {line.text}"
        elif not SERVER_WAITS.fullmatch(line.text):
            yield f"the server waits without an end: {line.text}"
        elif not line.fields.get("missing") and not any(name in line.text for name in NOBODY):
            yield f"the server does not say for whom it waits: {line.text}"


def nothing_is_silent(evidence: Evidence) -> Iterator[str]:
    """While the run goes on, something speaks every few seconds, or has named what it waits for."""
    begun = [row["time"] for row in evidence.diary if row["what"] == "begin"]
    over = [row["time"] for row in evidence.diary if row["what"] == "over"]
    spoken = sorted([(line.time, line) for line in evidence.logs], key=lambda pair: pair[0])
    times = sorted([*(time for time, _ in spoken), *(row["time"] for row in evidence.events)])
    for start, end in zip(begun, over, strict=False):
        heard = [time for time in times if start <= time <= end]  # not the start and end of the programs
        for before, after in itertools.pairwise(heard):
            allowed = NAMED_S if _named(spoken, before) else SILENT_S
            if after - before > allowed + _stopped(evidence):
                yield f"nothing was said for {after - before:.1f} s, {before - start:.1f} s after the start"


def _named(spoken: list[tuple[float, LogLine]], time: float) -> bool:
    """Whether a wait was named just before."""
    return any(
        time - SILENT_S <= when <= time and line.text.startswith("waiting for") for when, line in spoken
    )


def _stopped(evidence: Evidence) -> float:
    """Seconds for which the timeline may have kept the server from speaking: it was stopped, or down."""
    timeline = evidence.sequence.scenario.timeline
    names = ("for_s", "down_s")
    return sum(float(a.args.get(n, 0)) for a in timeline for n in names if a.who == SERVER)


def programs_end_in_order(evidence: Evidence) -> Iterator[str]:
    """Every program that ended says a documented code, or was killed on purpose."""
    over = False
    for row in evidence.diary:
        if row["what"] in ("begin", "over", "cut"):
            over = row["what"] == "cut"
        elif row["what"] == "ended":
            yield from _end(evidence, row, over)


def _end(evidence: Evidence, row: Row, cut: bool) -> Iterator[str]:
    code, child = int(row["code"]), str(row["child"])
    if code >= 0 and code not in DOCUMENTED:
        yield f"{child} ended with the undocumented code {code}"
    elif code >= 0 and child != SERVER and code not in ORDERLY:
        yield f"{child} ended with code {code}: {row['why']}"
    elif code < 0 and not (cut or row["why"] or _may_die(evidence, child)):  # who says why is slow to go
        yield f"{child} was ended by signal {-code}, which nothing had sent"


def _may_die(evidence: Evidence, child: str) -> bool:
    """Whether the timeline kills it, or keeps it from hearing of the end in time: then the runner does."""
    if child.count("-") == 2 or evidence.cut:  # an onboarder of the timeline, or an agent that is started
        return True  # when a run is gone on with, may still be starting when the run is over
    who = child.removeprefix("agent-")
    timeline = evidence.sequence.scenario.timeline
    return any(a.do in ("kill", "restart", "pause", "fault") and str(a.who) == who for a in timeline)
