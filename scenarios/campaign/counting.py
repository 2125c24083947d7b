"""No update is counted twice, and none is lost after its commit. Pure functions over the evidence."""

from collections import Counter
from collections.abc import Iterator

from edge_fed.federated.record import RoundRecord
from scenarios.campaign.evidence import Evidence, Row

UNEXPECTED = {
    "conflict": "sent two different updates of",
    "refused": "had its update refused in",
    "malformed": "sent a malformed message in",
    "illegal": "broke the order of messages in",
}


def records_agree_with_themselves(evidence: Evidence) -> Iterator[str]:
    """Each member of a cohort counts once or is missing with a reason; nobody else counts."""
    for record in evidence.records:
        counted = [part.agent for part in record.contributors]
        for agent, times in Counter(counted).items():
            if times > 1:
                yield f"round {record.round} counts agent {agent} {times} times"
        if counted != sorted(counted):
            yield f"round {record.round} folds out of order: {counted}"
        here = sorted({*counted, *record.missing})
        if record.outcome == "folded" and here != list(record.cohort):
            yield f"round {record.round} asked {list(record.cohort)}, and accounts for {here}"
        if both := set(counted) & set(record.missing):
            yield f"round {record.round} counts {sorted(both)} and calls them missing"
        if strangers := set(record.cohort) - set(record.eligible):
            yield f"round {record.round} asks {sorted(strangers)}, who are not eligible"


def journal_agrees(evidence: Evidence) -> Iterator[str]:
    """Each committed round was opened once, with its cohort; whom it excused, it does not count."""
    opened = Counter(row["round"] for row in evidence.events if row["event"] == "round_opened")
    for record in evidence.records:
        if opened[record.round] != 1:
            yield f"round {record.round} is committed and was opened {opened[record.round]} times"
        for row in evidence.events:
            if row["event"] != "round_opened" or row["round"] != record.round:
                continue
            if tuple(row["cohort"]) != record.cohort or tuple(row["eligible"]) != record.eligible:
                yield f"round {record.round} was opened with cohort {row['cohort']}, not {record.cohort}"
        yield from _excused_and_counted(evidence, record)


def _excused_and_counted(evidence: Evidence, record: RoundRecord) -> Iterator[str]:
    """Only the server process that commits a round decides it: an excuse of an earlier one is void."""
    counted = {part.agent for part in record.contributors}
    for row in evidence.committing_life(record.round):
        gone = row["event"] in ("excused", "late", "refused") and row["round"] == record.round
        if gone and row["agent"] in counted:
            yield f"round {record.round} counts agent {row['agent']}, which was {row['event']} in it"


def nothing_is_refused(evidence: Evidence) -> Iterator[str]:
    """No agent of ours sends what must be refused, whatever dies around it."""
    timeline = evidence.sequence.scenario.timeline
    disturbed = any(action.do == "fault" for action in timeline)  # what is lost may leave a gap in the order
    for row in evidence.events:
        if row["event"] in UNEXPECTED and not (disturbed and row["event"] == "illegal"):
            where = f"round {row['round']}" if "round" in row else "the run"
            why = row.get("reason") or row.get("code") or ""
            yield f"agent {row.get('agent')} {UNEXPECTED[row['event']]} {where}: {why}"


def books_agree(evidence: Evidence) -> Iterator[str]:
    """Each checkpoint's line is that of the journal, and its book the sum of the records up to it."""
    lines = {row["round"]: row for row in evidence.lines}
    for round_, sidecar in evidence.sidecars.items():
        if round_ and sidecar.get("line") != lines.get(round_):
            yield f"the checkpoint of round {round_} and metrics.jsonl have different lines"
        yield from _book(round_, sidecar["book"], [r for r in evidence.records if r.round <= round_])


def _book(round_: int, book: Row, records: list[RoundRecord]) -> Iterator[str]:
    counted: dict[str, int] = {}
    work: Counter[str] = Counter()
    for record in records:
        for part in record.contributors:
            counted[str(part.agent)] = record.round
            work[str(part.agent)] += part.trajectories
    if book["last_counted"] != counted:
        yield f"the book of round {round_} last counted {book['last_counted']}, the records say {counted}"
    if book["trajectories"] != dict(work):
        yield f"the book of round {round_} has trajectories {book['trajectories']}, the records {dict(work)}"
    for part in records[-1].contributors if records else ():
        last = book["last"].get(str(part.agent), {})
        if (last.get("round"), last.get("crc32"), last.get("verdict")) != (round_, part.crc32, "folded"):
            yield f"the book of round {round_} says of agent {part.agent}: {last}"


def newest_commit_is_there(evidence: Evidence) -> Iterator[str]:
    """The newest record has its checkpoint, and as many are kept as were to be kept."""
    newest = max((record.round for record in evidence.records), default=0)
    if max(evidence.sidecars, default=-1) != newest:
        yield f"round {newest} is recorded, the newest checkpoint is of {max(evidence.sidecars, default=-1)}"
    keep = evidence.config.federation.keep_checkpoints
    wanted = list(range(newest + 1))[-keep or None :]
    if sorted(evidence.sidecars) != wanted:
        yield f"checkpoints of rounds {sorted(evidence.sidecars)} are kept, not {wanted}"
