"""What was decided before a confirmatory run: seeds, studies, claims (methods.md 5).

``scenarios/paper/PREREGISTERED.toml``, or for later studies ``PREREGISTERED-NAME.toml`` beside it with seeds
and claims of their own, is committed before the run, and its hash goes into the results:

    tuning_seeds = "0-9"                # everything was chosen with these, no claim is judged on them
    confirmatory_seeds = "1000-1039"    # all of them, none replaced

    [[study]]
    name = "collapse"
    digest = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"    # Study.digest

    [[claim]]                           # at most three
    name = "guard"
    text = "The guard cures the collapse, better than placebos of the same norm."
    study = "collapse"
    outcome = "meta_objective"          # at the last round
    policy = "shared"                   # the default, as m = 0 is
    m = 0

    [[claim.condition]]                 # a claim holds if all of its conditions do
    kind = "mean_above"                 # the lower 95 % bound of the mean
    arm = "guarded"
    above = 1.8

    [[claim.condition]]
    kind = "fraction_above"             # of the seeds, at least
    arm = "guarded"
    above = 1.5
    fraction = 0.9

    [[claim.condition]]
    kind = "difference"                 # to each of these arms
    arm = "guarded"
    against = ["random-direction", "sign-flipped"]
    sign = "positive"                   # or negative; the default is either
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_fed.config import Settings, parse_goals
from edge_fed.errors import ConfigError, Fault, nearest
from edge_fed.program.config_file import parse, read
from edge_fed.program.conversion import convert
from edge_fed.program.toml_lines import key_lines, line_of
from scenarios.study.committed import why_not_committed
from scenarios.study.plan import Study

REGISTERED = Path(str(resources.files("scenarios.paper"))) / "PREREGISTERED.toml"
MOST_CLAIMS = 3
NEEDS = {"mean_above": {"above"}, "fraction_above": {"above", "fraction"}, "difference": {"against"}}
"""What each kind of condition must say."""
BELONGS = {**NEEDS, "difference": {"against", "sign"}}


class Condition(Settings, frozen=True, kw_only=True):
    """One thing that must be so; which keys belong to which kind stands in `NEEDS`."""

    kind: Literal["mean_above", "fraction_above", "difference"]
    arm: str
    above: float | None = None
    fraction: Annotated[float, Meta(gt=0, le=1)] | None = None
    against: tuple[str, ...] = ()
    sign: Literal["either", "positive", "negative"] = "either"


class Claim(Settings, frozen=True, kw_only=True):
    """One ``[[claim]]``; which number of the table it is about, as in `scenarios.study.results`."""

    name: str
    text: str
    study: str
    outcome: str
    policy: str = "shared"
    m: Annotated[int, Meta(ge=0)] = 0
    conditions: tuple[Condition, ...] = msgspec.field(name="condition")

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm that it speaks of, once."""
        return tuple(dict.fromkeys(arm for part in self.conditions for arm in (part.arm, *part.against)))


class Registered(Settings, frozen=True, kw_only=True):
    """One ``[[study]]``."""

    name: str
    digest: str


class Preregistration(Settings, frozen=True, kw_only=True):
    """The whole file."""

    tuning_seeds: tuple[int, ...]
    confirmatory_seeds: tuple[int, ...]
    studies: tuple[Registered, ...] = msgspec.field(name="study")
    claims: tuple[Claim, ...] = msgspec.field(name="claim", default=())

    def digest_of(self, study: str) -> str | None:
        """The registered digest; None: the study is not registered."""
        return {known.name: known.digest for known in self.studies}.get(study)


def registration_of(study: str) -> Path:
    """The file that registers this study; the first one if none does.

    Raises:
        ConfigError: One of the files is wrong.
    """
    for path in sorted(REGISTERED.parent.glob("PREREGISTERED-*.toml")):
        if load_preregistration(path).digest_of(study) is not None:
            return path
    return REGISTERED


def load_preregistration(path: Path = REGISTERED) -> Preregistration:
    """Reads and checks the file.

    Raises:
        ConfigError: Lists every fault.
    """
    text = read(path)
    tree, faults = parse(text, str(path)), list[Fault]()
    for key in ("tuning_seeds", "confirmatory_seeds"):
        _write_out(tree, key, faults)
    found = convert(tree, Preregistration, faults) if not faults else None
    if found is not None:
        faults += _faults(found)
    if found is None or faults:
        lines = key_lines(text)
        placed = [msgspec.structs.replace(fault, line=line_of(fault.path, lines)) for fault in faults]
        raise ConfigError(placed, str(path))
    return found


def preregistration_sha256(path: Path = REGISTERED) -> str:
    """Hash of the file's bytes: what results carry to say which decisions they keep to."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def require_preregistered(study: Study, seeds: Sequence[int], path: Path = REGISTERED) -> str:
    """Lets a confirmatory run begin only as it was decided, and decided before.

    Args:
        study: What is to run.
        seeds: With which seeds.
        path: The preregistration.

    Returns:
        The hash of the preregistration, for the results.

    Raises:
        ConfigError: The run differs from what was registered, or the file is not committed as it is.
    """
    found = load_preregistration(path)
    check_preregistered(study.name, study.digest, seeds, found)
    faults = list(_unknown_arms(study, found))
    if reason := why_not_committed(path):
        faults.append(Fault(str(path), reason, "commit it unchanged before the run"))
    if faults:
        raise ConfigError(faults, "--prereg")
    return preregistration_sha256(path)


def check_preregistered(study: str, digest: str, seeds: Sequence[int], found: Preregistration) -> None:
    """Compares a run with what was registered.

    Args:
        study: Name of the study.
        digest: `scenarios.study.plan.Study.digest` of what is about to run, or of what ran.
        seeds: The seeds of the run.
        found: The preregistration.

    Raises:
        ConfigError: Names all that differs, and what to do next.
    """
    faults = list(_seed_faults(seeds, found))
    registered = found.digest_of(study)
    if registered is None:
        names = [known.name for known in found.studies]
        faults.append(Fault("study", f"{study!r} is not registered", nearest(study, names)))
    elif registered != digest:
        message = f"{study!r} has digest {digest[:12]}…, registered is {registered[:12]}…"
        hint = "its arms, settings, seeds or outcomes changed since: undo that, or register it again"
        faults.append(Fault("digest", message, hint))
    if faults:
        raise ConfigError(faults, "--prereg")


def _seed_faults(seeds: Sequence[int], found: Preregistration) -> Iterator[Fault]:
    expected, given = set(found.confirmatory_seeds), set(seeds)
    hint = f"run it with --seeds {as_ranges(expected)}"
    if tuned := given & set(found.tuning_seeds):
        yield Fault("seeds", f"{as_ranges(tuned)} were for tuning", hint)
    if strange := given - expected - set(found.tuning_seeds):
        yield Fault("seeds", f"{as_ranges(strange)} are not registered", hint)
    if missing := expected - given:
        yield Fault("seeds", f"{as_ranges(missing)} are missing", hint)


def _unknown_arms(study: Study, found: Preregistration) -> Iterator[Fault]:
    """Claims that this study could never answer."""
    arms = [arm.name for arm in study.arms]
    for claim in found.claims:
        if claim.study == study.name:
            for arm in claim.arms:
                if arm not in arms:
                    yield Fault(f"claim {claim.name}", f"{study.name} has no arm {arm!r}", nearest(arm, arms))
            if study.outcomes and claim.outcome not in study.outcomes:
                message = f"{study.name} does not keep {claim.outcome!r}"
                yield Fault(f"claim {claim.name}", message, nearest(claim.outcome, study.outcomes))


def _write_out(tree: dict[str, Any], key: str, faults: list[Fault]) -> None:
    """Ranges of seeds as a list of them."""
    if isinstance(tree.get(key), str | list):
        try:
            tree[key] = list(parse_goals(tree[key]))
        except ValueError as error:
            faults.append(Fault(key, str(error).replace("goal", "seed")))


def _faults(found: Preregistration) -> Iterator[Fault]:
    """What a record of single keys cannot say."""
    if not found.confirmatory_seeds:
        yield Fault("confirmatory_seeds", "is empty")
    if shared := set(found.tuning_seeds) & set(found.confirmatory_seeds):
        yield Fault("confirmatory_seeds", f"{as_ranges(shared)} are tuning seeds, too")
    if len(found.claims) > MOST_CLAIMS:
        message = f"{len(found.claims)} claims, at most {MOST_CLAIMS} are confirmatory"
        yield Fault("claim", message, "all others are exploratory and stand elsewhere")
    yield from _twice("study", [study.name for study in found.studies])
    yield from _twice("claim", [claim.name for claim in found.claims])
    for index, study in enumerate(found.studies):
        if len(study.digest) != 64 or not set(study.digest) <= set("0123456789abcdef"):
            yield Fault(f"study.{index}.digest", f"is {study.digest!r}, expected 64 hexadecimal digits")
    for index, claim in enumerate(found.claims):
        if found.digest_of(claim.study) is None:
            names = [study.name for study in found.studies]
            message = f"{claim.study!r} is not registered"
            yield Fault(f"claim.{index}.study", message, nearest(claim.study, names))
        if not claim.conditions:
            yield Fault(f"claim.{index}.condition", "is empty", "write what must be so")
        for number, condition in enumerate(claim.conditions):
            yield from _condition_faults(condition, f"claim.{index}.condition.{number}")


def _twice(key: str, names: Sequence[str]) -> Iterator[Fault]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Fault(key, f"{count} are named {name!r}")


def _condition_faults(condition: Condition, path: str) -> Iterator[Fault]:
    unset = {field.name: field.default for field in msgspec.structs.fields(Condition) if not field.required}
    given = {key for key, default in unset.items() if getattr(condition, key) != default}
    for key in sorted(NEEDS[condition.kind] - given):
        yield Fault(f"{path}.{key}", f"is missing; {condition.kind} needs it")
    for key in sorted(given - BELONGS[condition.kind]):
        yield Fault(f"{path}.{key}", f"does not belong to {condition.kind}")
    if condition.arm in condition.against:
        yield Fault(f"{path}.against", f"names {condition.arm!r} itself")


def as_ranges(seeds: Iterable[int]) -> str:
    """Seeds as ``--seeds`` reads them: ``0-3,7``."""
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and seed == parts[-1][-1] + 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
