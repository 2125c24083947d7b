"""The server's bookkeeping that must survive a crash: what was committed, and what each agent last sent.

Pure. A `Book` is a frozen copy for the checkpoint's sidecar; a `Ledger` is rebuilt from it on resume.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from edge_fed.federated.control_variate import ServerControl
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import RoundRecord
from edge_fed.params import F8, params_sha256
from protocol.messages import Update

KEPT_CHECKSUMS = 8  # of one round's updates of one agent: an agent that floods must not fill the memory

Verdict = Literal["folded", "skipped", "late", "refused"]


MOST_FINGERPRINTS = 1000  # an agent could make up ever more, and each checkpoint holds them all


class Last(msgspec.Struct, frozen=True):
    """An agent's newest update: its round, its checksum, and what became of it."""

    round: int
    crc32: int
    verdict: Verdict


class Spent(msgspec.Struct, frozen=True):
    """Trajectories an agent sampled for training, discarded work included.

    Attributes:
        earlier: Of its earlier processes.
        incarnation: Its newest process, hex.
        newest: Of that process, as it said last.
    """

    earlier: int = 0
    incarnation: str = ""
    newest: int = 0

    @property
    def total(self) -> int:
        """All of its processes together."""
        return self.earlier + self.newest


class Released(msgspec.Struct, frozen=True):
    """Different updates of one agent that the server has seen, whatever became of them.

    Attributes:
        count: At most so many, all its rounds together.
        round: Of the newest one.
        crc32s: Of those of that round; the same bits again say nothing new.
    """

    count: int = 0
    round: int = 0
    crc32s: tuple[int, ...] = ()


class Book(msgspec.Struct, frozen=True):
    """What the sidecar keeps besides the round's record.

    Attributes:
        last: Agent -> its newest update.
        last_counted: Agent -> newest round that counted an update of it.
        trajectories: Agent -> trajectories of its counted updates.
        spent: Agent -> trajectories sampled, discarded work included.
        skipped: Skipped rounds in a row.
        fingerprints: Every numerics fingerprint seen.
        control_since: Control variates of agents whose last counted round is before this one are zero.
        strikes: Agent -> rounds in a row in which an update of it was refused.
        quarantined: Agents that are not asked any more.
        released: Agent -> its updates that were seen; only in a run with private noise.
    """

    last: dict[int, Last] = {}
    last_counted: dict[int, int] = {}
    trajectories: dict[int, int] = {}
    spent: dict[int, Spent] = {}
    skipped: int = 0
    fingerprints: tuple[str, ...] = ()
    control_since: int = 0
    strikes: dict[int, int] = {}
    quarantined: tuple[int, ...] = ()
    released: dict[int, Released] = {}


class Ledger:
    """Committed parameters and the bookkeeping beside them.

    Args:
        params: Parameters after ``committed``, ``[d]``.
        committed: Newest committed round; -1: not even the initial parameters are.
        book: Of that round's checkpoint.
        control: The server's half of the run's correction after it; None: the run has none.
    """

    def __init__(
        self,
        params: F8,
        committed: int = -1,
        book: Book | None = None,
        control: ServerControl | None = None,
    ) -> None:
        book = book or Book()
        self.params = params
        self.control = control
        self.committed = committed
        self._closed_sha256 = params_sha256(params)
        self.closed = committed  # newest round with an outcome, committed or about to be
        self.sha256 = self._closed_sha256  # of the committed parameters
        self.last = dict(book.last)
        self.last_counted = dict(book.last_counted)
        self.trajectories = dict(book.trajectories)
        self.spent = dict(book.spent)
        self.skipped = book.skipped
        self.fingerprints = list(book.fingerprints)
        self.control_since = book.control_since
        self.released = dict(book.released)
        self.quarantine = Quarantine("off", book.strikes, book.quarantined)  # `server.training` sets `after`

    @property
    def control_value(self) -> F8 | None:
        """c, ``[d]``; None without correction."""
        return self.control.value if self.control else None

    def book(self) -> Book:
        """A frozen copy for the checkpoint."""
        return Book(
            dict(self.last),
            dict(self.last_counted),
            dict(self.trajectories),
            dict(self.spent),
            self.skipped,
            tuple(self.fingerprints),
            self.control_since,
            dict(self.quarantine.strikes),
            tuple(sorted(self.quarantine.agents)),
            dict(self.released),
        )

    def commit(self, round_: int) -> None:
        """The checkpoint of the newest closed round is on disk."""
        self.committed, self.sha256 = round_, self._closed_sha256

    def close(self, record: RoundRecord, params: F8, control: ServerControl | None) -> None:
        """Takes over a round's outcome; it counts once its checkpoint is committed."""
        self._closed_sha256 = record.params_sha256
        self.params, self.control, self.closed = params, control, record.round
        if control and record.state_resets:
            self.control_since = record.round + 1
        folded = record.outcome == "folded"
        self.skipped = 0 if folded else self.skipped + 1
        for contribution in record.contributors:
            agent = contribution.agent
            self.last[agent] = Last(record.round, contribution.crc32, "folded")
            self.last_counted[agent] = record.round
            self.trajectories[agent] = self.trajectories.get(agent, 0) + contribution.trajectories

    def skip(self, round_: int, held: Iterable[tuple[int, int]]) -> None:
        """Remembers the updates of a round that had too few of them."""
        for agent, checksum in held:
            self.last[agent] = Last(round_, checksum, "skipped")

    def note_update(self, agent: int, incarnation: bytes, update: Update) -> None:
        """Counts the work behind an update, whether or not it will be averaged."""
        before = self.spent.get(agent, Spent())
        process = incarnation.hex()
        earlier = before.earlier if before.incarnation == process else before.total
        newest = update.trajectories_spent
        if before.incarnation == process:
            newest = max(newest, before.newest)
        self.spent[agent] = Spent(earlier, process, newest)

    def note_release(self, agent: int, update: Update) -> bool:
        """Counts a private update that was seen: also one that is late, refused or in conflict.

        Returns:
            Whether it differs from those that were seen before.
        """
        before = self.released.get(agent, Released())
        seen = before.crc32s if before.round == update.round else ()
        if update.crc32 in seen:
            return False
        kept = (*seen, update.crc32)[-KEPT_CHECKSUMS:]
        self.released[agent] = Released(before.count + 1, update.round, kept)
        return True

    def note_released(self, seen: Mapping[int, int]) -> None:
        """Takes over what earlier processes had counted when they died, newer than the checkpoint."""
        for agent, count in seen.items():
            before = self.released.get(agent, Released())
            self.released[agent] = msgspec.structs.replace(before, count=max(before.count, count))

    def note_unseen(self, agents: Iterable[int], rounds: int) -> None:
        """Counts what an earlier process may have seen in rounds that it opened and never committed."""
        for agent in agents if rounds > 0 else ():
            before = self.released.get(agent, Released())
            self.released[agent] = msgspec.structs.replace(before, count=before.count + rounds)

    def note_verdict(self, agent: int, update: Update, verdict: Verdict) -> None:
        """Remembers an update that was not averaged, so that its resend gets the same answer."""
        known = self.last.get(agent)
        if known is None or known.round < update.round:
            self.last[agent] = Last(update.round, update.crc32, verdict)

    def note_fingerprint(self, fingerprint: str) -> bool:
        """Remembers a numerics fingerprint; returns whether it is a second, different one."""
        if fingerprint in self.fingerprints or len(self.fingerprints) >= MOST_FINGERPRINTS:
            return False
        self.fingerprints.append(fingerprint)
        return len(self.fingerprints) > 1


class Resume(msgspec.Struct, frozen=True):
    """What an earlier server process left behind besides the checkpoint.

    Attributes:
        expected: Agents that were there when it died, as far as the folder tells.
        round: The round it had opened after the newest checkpoint; 0: none.
        eligible: Of that round.
        cohort: Of that round.
        evaluated: Rounds whose evaluation is recorded.
        reports: Reports of onboarders.
        finished: It had ended in order.
    """

    expected: tuple[int, ...] = ()
    round: int = 0
    eligible: tuple[int, ...] = ()
    cohort: tuple[int, ...] = ()
    evaluated: frozenset[int] = frozenset()
    reports: tuple[dict[str, Any], ...] = ()
    finished: bool = False
