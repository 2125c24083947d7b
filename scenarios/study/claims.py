"""Judges preregistered claims: each holds, is not shown, or cannot be judged (methods.md 5).

- A mean is above a limit if the lower bound of its 95 % interval is; a fraction of seeds is what was counted.
- Two arms differ if Welch's p is at most 5 % and the interval of the difference does not hold zero
  (BCa; of fewer than six seeds Welch's t).
- A claim of several differences has the largest of their p values, for it says that all of them are there.
  These p values, one per claim, are Holm-corrected over all claims that speak of a difference; a claim that
  cannot be judged counts there as p = 1: it makes the others no easier.
- Judged is what was registered: every confirmatory seed and no other, after the last round of training, of a
  run that kept to this very file, and whose every line carries the configuration of its arm.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from edge_fed.errors import ConfigError, Fault
from scenarios.study.plan import Study
from scenarios.study.preregistration import Claim, Condition, Preregistration, as_ranges
from scenarios.study.results import Results, read_results
from scenarios.study.statistics import Difference, Summary, difference, holm, summarize
from scenarios.study.tables import read_made, require_config

LEVEL = 0.05

Values = dict[str, list[float]]
"""Arm -> one value per confirmatory seed, in their order."""


class Evidence(msgspec.Struct, frozen=True):
    """The results of one study.

    Attributes:
        results: The table.
        digest: Of the study that was run.
        preregistration: Hash of the file that the run kept to; None: of none.
        study: As it stands now: of which configuration its arms are, and how long they train.
    """

    results: Results
    digest: str
    preregistration: str | None
    study: Study


class Judged(msgspec.Struct, frozen=True):
    """One condition, or one of the arms of a difference.

    Attributes:
        words: What must be so.
        holds: Whether it is, a difference before the correction over claims.
        found: The number that decides: the lower bound, the fraction, or the difference of the means.
        limit: What it is held against; of a difference zero.
        figures: All that was computed from the values.
    """

    words: str
    holds: bool
    found: float
    limit: float
    figures: Summary | Difference


class Verdict(msgspec.Struct, frozen=True):
    """One claim.

    Attributes:
        name: Of the claim.
        text: The claim in words, as registered.
        verdict: ``cannot be judged``: seeds are missing, or the results are not those that were registered.
        reason: What fails, or why it cannot be judged; empty if it holds.
        conditions: In the order of the file; none if it cannot be judged.
        p: Largest p of its differences; None: it speaks of none.
        p_holm: The same, corrected over the claims.
    """

    name: str
    text: str
    verdict: Literal["holds", "not shown", "cannot be judged"]
    reason: str
    conditions: tuple[Judged, ...] = ()
    p: float | None = None
    p_holm: float | None = None


def read_evidence(table: Path, study: Study) -> Evidence:
    """Reads a study's table, and what it was made with from the JSON file beside it.

    Raises:
        ConfigError: One of them is missing or wrong, or the table was changed since it was written.
    """
    made = read_made(table)
    return Evidence(read_results(table), made.digest, made.preregistration, study)


def judge(
    found: Preregistration, sha256: str, evidence: Mapping[str, Evidence | ConfigError]
) -> tuple[Verdict, ...]:
    """Judges every claim.

    Args:
        found: The preregistration.
        sha256: Its hash, which results name that kept to it.
        evidence: Study -> its results, or why they cannot be read; a study that did not run is left out.

    Raises:
        ProgramError: scipy is not installed.
    """
    judged: list[tuple[Judged, ...] | str] = []
    for claim in found.claims:
        try:
            values = _values(claim, found, sha256, evidence)
            judged.append(tuple(part for condition in claim.conditions for part in _judge(condition, values)))
        except ConfigError as error:
            judged.append("; ".join(str(fault) for fault in error.faults))
    corrected = _corrected(found.claims, judged)
    return tuple(_verdict(claim, judged[i], corrected.get(i)) for i, claim in enumerate(found.claims))


def _values(
    claim: Claim, found: Preregistration, sha256: str, evidence: Mapping[str, Evidence | ConfigError]
) -> Values:
    """The confirmatory values of every arm of a claim.

    Raises:
        ConfigError: They are not all there, or not those that were registered.
    """
    known = evidence.get(claim.study)
    if known is None:
        raise ConfigError([Fault(claim.study, "there are no results", "run the study with --prereg")])
    if isinstance(known, ConfigError):
        raise ConfigError([_placed(fault, known.source) for fault in known.faults])
    _require_registered(claim.study, found, sha256, known)
    values, faults = {}, []
    for arm in claim.arms:
        last = known.study.arm(arm).scenario.algorithm.rounds
        by_seed = known.results.values(arm, claim.outcome, claim.policy, claim.m, last)
        if missing := set(found.confirmatory_seeds) - set(by_seed):
            faults.append(Fault(arm, f"seeds are missing: {as_ranges(missing)}"))
        else:
            values[arm] = [by_seed[seed] for seed in found.confirmatory_seeds]
    if faults:
        raise ConfigError(faults)
    return values


def _require_registered(study: str, found: Preregistration, sha256: str, known: Evidence) -> None:
    """Raises: ConfigError: The results are not of the registered study, or kept to another file."""
    registered = found.digest_of(study)
    if known.digest != registered:
        raise ConfigError([Fault(study, "the results are of another study than the registered one")])
    if known.study.digest != registered:
        hint = "restore its file as it was registered"
        raise ConfigError([Fault(study, "the study is another than the registered one now", hint)])
    if known.preregistration != sha256:
        what = "another preregistration" if known.preregistration else "no preregistration"
        raise ConfigError([Fault(study, f"the results keep to {what}", "run the study with --prereg")])
    require_config(known.study, known.results)


def _placed(fault: Fault, source: str) -> Fault:
    """With the file in its path."""
    return msgspec.structs.replace(fault, path=f"{source}: {fault.path}" if fault.path else source)


def _judge(condition: Condition, values: Values) -> Iterator[Judged]:
    if condition.kind == "difference":
        for other in condition.against:
            yield _difference(condition, other, difference(values[condition.arm], values[other]))
        return
    above, fraction = condition.above, condition.fraction
    assert above is not None
    if fraction is None:
        found = summarize(values[condition.arm])
        words = f"lower 95 % bound of the mean of {condition.arm} above {above:g}"
        yield Judged(words, found.interval.low > above, found.interval.low, above, found)
    else:
        found = summarize(values[condition.arm], above)
        counted = found.fraction_above
        assert counted is not None
        words = f"at least {100 * fraction:g} % of the seeds of {condition.arm} above {above:g}"
        yield Judged(words, counted >= fraction, counted, fraction, found)


def _difference(condition: Condition, other: str, found: Difference) -> Judged:
    """Significant alone, and on the side that was claimed."""
    side = {"either": "differs from zero", "positive": "is positive", "negative": "is negative"}
    above, below = found.interval.low > 0, found.interval.high < 0
    right = {"either": above or below, "positive": above, "negative": below}[condition.sign]
    words = f"mean of {condition.arm} minus mean of {other} {side[condition.sign]}"
    return Judged(words, right and found.p <= LEVEL, found.mean, 0.0, found)


def _corrected(
    claims: tuple[Claim, ...], judged: list[tuple[Judged, ...] | str]
) -> dict[int, tuple[float, float]]:
    """Index of a claim of differences -> its p, and that p corrected."""
    own: dict[int, float] = {}
    for index, (claim, parts) in enumerate(zip(claims, judged, strict=True)):
        if any(condition.kind == "difference" for condition in claim.conditions):
            differences = [] if isinstance(parts, str) else [part.figures for part in parts]
            own[index] = max((d.p for d in differences if isinstance(d, Difference)), default=1.0)
    return {i: (own[i], p) for i, p in zip(own, holm(list(own.values())), strict=True)}


def _verdict(claim: Claim, judged: tuple[Judged, ...] | str, p: tuple[float, float] | None) -> Verdict:
    if isinstance(judged, str):
        return Verdict(claim.name, claim.text, "cannot be judged", judged)
    failing = [f"not so: {part.words} (found {part.found:.4g})" for part in judged if not part.holds]
    own, corrected = p or (None, None)
    if corrected is not None and corrected > LEVEL and not failing:
        failing = [f"p = {own:.3g}, over all claims {corrected:.3g} after Holm"]
    verdict: Literal["holds", "not shown"] = "not shown" if failing else "holds"
    return Verdict(claim.name, claim.text, verdict, "; ".join(failing), judged, own, corrected)
