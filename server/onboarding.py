"""Agents that never train: what they asked for, who is served, and whose report is due. Pure.

At most two bulk transfers run at once; the others are told their place. A vector that fits one chunk is
no bulk and is handed out at once.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from edge_fed.config import changed
from protocol.limits import CHUNK_BYTES
from protocol.messages import Onboard, Report
from server.members import MIN_LINK_RATE, Member
from server.rows import Rules

MAX_TRANSFERS = 2
MAX_REPORTS = 8  # different ones of one session; an honest process needs one
MOST_REPORTS = 256  # recorded of one goal in the life of a run
RECEIVED = ("onboarding", "evaluating")  # phases in which an onboarder holds its initialization
GRACE_S = 2.0


class Request(msgspec.Struct):
    """An onboarder's request for an initialization.

    Attributes:
        message: What it asked for.
        sent_at: When INIT went out; None: not yet.
        loading: Round whose checkpoint is being read for it.
    """

    message: Onboard
    sent_at: float | None = None
    loading: int | None = None


class Onboarding:
    """Requests in order of arrival, and reports.

    Args:
        announced: Goals whose reports the run waits for.
        size: Bytes of one parameter vector.
        rules: What a row must be; None: nobody reports.
    """

    def __init__(self, announced: Iterable[int], size: int, rules: Rules | None = None) -> None:
        self.announced = frozenset(announced)
        self._rules = rules
        self._recorded: Counter[int] = Counter()  # reports by goal, replaced ones included
        self.reports: dict[tuple[int, str, int], dict[str, Any]] = {}
        self._size = size
        self._requests: dict[bytes, Request] = {}  # by incarnation
        self._running: dict[bytes, float] = {}  # bulk transfers -> when they must have ended

    def ask(self, member: Member, message: Onboard) -> None:
        """Takes a request; a repeated one is served again."""
        self._running.pop(member.incarnation, None)
        self._requests[member.incarnation] = Request(message)

    def drop(self, member: Member) -> None:
        """The onboarder is gone."""
        self._requests.pop(member.incarnation, None)
        self._running.pop(member.incarnation, None)

    def needed(self) -> frozenset[int]:
        """Rounds that somebody asked for by number and has not reported on: their checkpoints must stay."""
        messages = (request.message for request in self._requests.values())
        return frozenset(message.round for message in messages if message.at == "round")

    def servable(self, committed: int, final: int, now: float) -> list[tuple[bytes, int]]:
        """Incarnations that can be sent an initialization now, and of which round.

        Args:
            committed: Newest committed round.
            final: The last round K.
            now: Monotonic seconds.
        """
        for incarnation, until in list(self._running.items()):
            if now >= until:
                del self._running[incarnation]
        free = MAX_TRANSFERS - len(self._running) if self._bulk else math.inf
        found: list[tuple[bytes, int]] = []
        for incarnation, request in self._requests.items():
            round_ = _round_of(request.message, committed, final)
            if (
                request.sent_at is None
                and request.loading is None
                and round_ is not None
                and len(found) < free
            ):
                found.append((incarnation, round_))
        return found

    def loading(self, incarnation: bytes, round_: int) -> None:
        """The checkpoint for this request is being read."""
        self._requests[incarnation].loading = round_

    def loaded(self, round_: int) -> list[bytes]:
        """Requests that waited for this round's checkpoint."""
        found = [i for i, request in self._requests.items() if request.loading == round_]
        for incarnation in found:
            self._requests[incarnation].loading = None
        return found

    def sent(self, member: Member, round_: int, now: float) -> None:
        """INIT went out."""
        request = self._requests[member.incarnation]
        request.sent_at = now
        member.given.add(round_)
        if self._bulk:
            self._running[member.incarnation] = now + GRACE_S + self._size / MIN_LINK_RATE

    def lacks(self, member: Member) -> bool:
        """Whether an onboarder was sent its initialization, and does not say that it works with it."""
        request = self._requests.get(member.incarnation)
        if request is None or request.sent_at is None:
            return False
        if member.phase in RECEIVED:
            self._running.pop(member.incarnation, None)
        return member.phase not in RECEIVED

    def again(self, member: Member) -> None:
        """Serve this request once more."""
        self._requests[member.incarnation].sent_at = None
        self._running.pop(member.incarnation, None)

    def place(self, member: Member) -> int | None:
        """How many requests are before this one; None: it was served, or there is none."""
        waiting = [i for i, request in self._requests.items() if request.sent_at is None]
        return waiting.index(member.incarnation) if member.incarnation in waiting else None

    def fault(self, member: Member, report: Report, last_round: int) -> str:
        """Why a report is not taken; empty: it is.

        An onboarder speaks for its own goal alone, of parameters that it was given, in rows as they are
        measured, and a few times: nobody fills memory and disk with reports, or takes another's place.
        """
        if report.round > last_round:
            return f"there is no round {report.round}; the last one is {last_round}"
        if report.round not in member.given:
            return f"this session was never given the parameters of round {report.round}"
        fault = self._rules.onboarding(member.agent, report) if self._rules else "nobody reports here"
        if fault or self._row(member, report) in self.reports.values():
            return fault
        if member.reports >= MAX_REPORTS:
            return f"{MAX_REPORTS} reports of this session were taken already"
        if self._recorded[member.agent] >= MOST_REPORTS:
            return f"{MOST_REPORTS} reports of goal {member.agent} were taken in this run already"
        return ""

    def report(self, member: Member, report: Report) -> dict[str, Any] | None:
        """Keeps an onboarder's rows; a later report of the same process and round replaces them.

        Returns:
            The report as it is recorded; None if it is known already.
        """
        self.drop(member)
        row = self._row(member, report)
        if self.reports.get((member.agent, member.incarnation.hex(), report.round)) == row:
            return None
        member.reports += 1
        self.restore(row)
        return row

    def _row(self, member: Member, report: Report) -> dict[str, Any]:
        return {
            "kind": "onboarding",
            "round": report.round,
            "agent": member.agent,
            "incarnation": member.incarnation.hex(),
            "trajectories": report.trajectories,
            "overrides": changed(member.overrides),
            "rows": [dict(row) for row in report.rows],
        }

    def restore(self, row: dict[str, Any]) -> None:
        """Takes over a report, perhaps from an earlier server process."""
        self._recorded[row["agent"]] += 1
        self.reports[row["agent"], row["incarnation"], row["round"]] = row

    def outstanding(self, connected: Iterable[Member], final: int) -> tuple[int, ...]:
        """Goals whose report is due: announced ones, of round ``final``, and connected ones."""
        reported = {(agent, incarnation) for agent, incarnation, _round in self.reports}
        goals = self.announced - {agent for agent, _incarnation, round_ in self.reports if round_ == final}
        here = {m.agent for m in connected if (m.agent, m.incarnation.hex()) not in reported}
        return tuple(sorted(goals | here))

    def at_work(self, connected: Iterable[Member], committed: int, final: int) -> tuple[int, ...]:
        """Goals of onboarders whose report comes although no further round does: they have what they need.

        Args:
            connected: Onboarders with a session.
            committed: Newest committed round.
            final: The last round K.
        """
        reported = {(agent, incarnation) for agent, incarnation, _round in self.reports}
        found = set()
        for member in connected:
            request = self._requests.get(member.incarnation)
            wanted = request is None or _round_of(request.message, committed, final) is not None
            if member.ready and wanted and (member.agent, member.incarnation.hex()) not in reported:
                found.add(member.agent)
        return tuple(sorted(found))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of each goal's report of the latest round (of several, the newest), by goal."""
        best: dict[int, dict[str, Any]] = {}
        for (agent, _incarnation, round_), report in self.reports.items():
            if agent not in best or round_ >= best[agent]["round"]:
                best[agent] = report
        return [row for agent in sorted(best) for row in best[agent]["rows"]]

    def due(self) -> float:
        """The next time at which a transfer counts as ended."""
        return min(self._running.values(), default=math.inf)

    @property
    def _bulk(self) -> bool:
        return self._size > CHUNK_BYTES


def _round_of(message: Onboard, committed: int, final: int) -> int | None:
    """The round whose parameters a request gets, or None: not yet."""
    if message.at == "now":
        return committed if committed >= 0 else None
    round_ = final if message.at == "final" else message.round
    return round_ if round_ <= committed else None
