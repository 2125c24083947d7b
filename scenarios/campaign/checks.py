"""The checkers of a campaign: one visible table. Each takes the evidence and yields what it finds wrong."""

from collections.abc import Callable, Iterator

import msgspec

from scenarios.campaign import counting, course, leftovers, replaying, waits
from scenarios.campaign.evidence import Evidence

Check = Callable[[Evidence], Iterator[str]]

CHECKS: dict[str, Check] = {
    "lines are whole": course.lines_are_whole,
    "rounds are complete": course.rounds_are_complete,
    "summary agrees": course.summary_agrees,
    "missing have a cause": course.missing_have_a_cause,
    "records agree with themselves": counting.records_agree_with_themselves,
    "journal agrees": counting.journal_agrees,
    "nothing is refused": counting.nothing_is_refused,
    "books agree": counting.books_agree,
    "newest commit is there": counting.newest_commit_is_there,
    "verifies": replaying.verifies,
    "equals the plain loop": replaying.equals_the_plain_loop,
    "agents hold their state": replaying.agents_hold_their_state,
    "logs are ours": waits.logs_are_ours,
    "waits are named": waits.waits_are_named,
    "nothing is silent": waits.nothing_is_silent,
    "programs end in order": waits.programs_end_in_order,
    "no process": leftovers.no_process,
    "no socket file": leftovers.no_socket_file,
    "no lock": leftovers.no_lock,
    "no parts": leftovers.no_parts,
}


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    check: str
    text: str


def judge(evidence: Evidence) -> tuple[Finding, ...]:
    """What every checker finds; one that cannot even read the evidence is a finding, too."""
    found: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            found += [Finding(name, text) for text in check(evidence)]
        except (LookupError, TypeError, ValueError) as error:
            found.append(Finding(name, f"cannot be checked: {type(error).__name__}: {error}"))
    return tuple(found)
