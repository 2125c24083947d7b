"""The record of a round: what decided its result besides the configuration.

Equal records give equal parameter hashes (docs of `verify`). The record is committed together with the
round's checkpoint, written to ``metrics.jsonl``, and is all that a replay needs.
"""

from typing import Literal

import msgspec

from edge_fed.config import Overrides


class Contribution(msgspec.Struct, frozen=True):
    """One folded update.

    Attributes:
        agent: Agent id.
        crc32: CRC-32 of the delta's little-endian float64 bytes.
        weight: Aggregation weight as used.
        trajectories: Trajectories sampled for it, counted while sampling.
    """

    agent: int
    crc32: int
    weight: float
    trajectories: int


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One committed round.

    Attributes:
        round: 1..K.
        eligible: Agents that were READY and not lost at the boundary, ascending.
        cohort: Agents that were asked for an update, ascending.
        contributors: What was folded, in fold order (ascending agent id).
        missing: Cohort members without a folded update -> reason (deadline, lease, bye, refused: ...).
        state_resets: Agents that started this round without their earlier agent state. Control variates
            start from zero after such a round.
        overrides: Agents that do not work exactly as the run says -> their effective overrides.
        fingerprints: Numerics fingerprint -> agents that work with it; more than one: not bit-equal.
        outcome: ``folded``, or ``skipped`` when fewer than the minimum of updates came.
        params_sha256: Hash of the parameters after the round.
        control_sha256: Hash of the run's control variate after the round; empty: the run has none.
        conflicts: Agents that sent a second, different update while the round was open; the first one stands.
        quarantined: Agents that are not asked any more after this round.
        private_noise: Its updates hold noise from secrets of the agents; it cannot be computed again.
    """

    round: int
    eligible: tuple[int, ...]
    cohort: tuple[int, ...]
    contributors: tuple[Contribution, ...]
    params_sha256: str
    outcome: Literal["folded", "skipped"] = "folded"
    missing: dict[int, str] = {}
    state_resets: tuple[int, ...] = ()
    overrides: dict[int, Overrides] = {}
    fingerprints: dict[str, tuple[int, ...]] = {}
    control_sha256: str = ""
    conflicts: tuple[int, ...] = ()
    quarantined: tuple[int, ...] = ()
    private_noise: bool = False


class Attendance(msgspec.Struct, frozen=True):
    """What the plain loop must be told about a round; the algorithm decides the rest.

    Attributes:
        round: 1..K.
        eligible: Agents present at the boundary, ascending.
        present: Cohort members whose update arrived; None: all of them.
        state_resets: Agents that lost their agent state before this round.
        reasons: Cohort members whose update did not arrive -> why, as recorded; not there: absent.
        conflicts: As recorded.
    """

    round: int
    eligible: tuple[int, ...]
    present: frozenset[int] | None = None
    state_resets: tuple[int, ...] = ()
    reasons: dict[int, str] = {}
    conflicts: tuple[int, ...] = ()
