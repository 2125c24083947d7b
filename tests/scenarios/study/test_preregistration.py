"""The preregistration: what its file may say, and every way in which a run can differ from it."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from edge_fed.errors import ConfigError
from scenarios.study import preregistration
from scenarios.study.plan import Arm, Study
from scenarios.study.preregistration import (
    Preregistration,
    check_preregistered,
    load_preregistration,
    preregistration_sha256,
    registration_of,
    require_preregistered,
)
from scenarios.timeline import Scenario
from tests.scenarios.study.repository import commit

SEEDS = range(1000, 1004)
STUDY = Study(
    name="collapse",
    description="",
    arms=tuple(Arm(name, Scenario(), name * 2) for name in ("guarded", "random-direction", "sign-flipped")),
    seeds=tuple(SEEDS),
    outcomes=("meta_objective",),
    diagnose=False,
    tuning=None,
)
TEXT = f"""
tuning_seeds = "0-9"
confirmatory_seeds = "1000-1003"

[[study]]
name = "collapse"
digest = "{STUDY.digest}"

[[claim]]
name = "guard"
text = "The guard cures the collapse, better than placebos."
study = "collapse"
outcome = "meta_objective"

[[claim.condition]]
kind = "mean_above"
arm = "guarded"
above = 1.8

[[claim.condition]]
kind = "fraction_above"
arm = "guarded"
above = 1.5
fraction = 0.9

[[claim.condition]]
kind = "difference"
arm = "guarded"
against = ["random-direction", "sign-flipped"]
sign = "positive"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The preregistration above."""
    path = tmp_path / "PREREGISTERED.toml"
    path.write_text(TEXT)
    return path


def test_the_file_says_seeds_studies_and_claims(file: Path) -> None:
    """Ranges are written out; a claim has one condition or several, of each kind."""
    found = load_preregistration(file)
    assert (found.tuning_seeds, found.confirmatory_seeds) == (tuple(range(10)), tuple(SEEDS))
    assert found.digest_of("collapse") == STUDY.digest
    (claim,) = found.claims
    assert [part.kind for part in claim.conditions] == ["mean_above", "fraction_above", "difference"]
    assert claim.arms == ("guarded", "random-direction", "sign-flipped")
    assert (claim.policy, claim.m, claim.conditions[1].fraction) == ("shared", 0, 0.9)


def test_the_example_of_the_documentation_is_right(tmp_path: Path) -> None:
    """What the head of the module shows can be loaded as it stands."""
    example = (preregistration.__doc__ or "").partition("results:\n")[2]
    (tmp_path / "example.toml").write_text("\n".join(line[4:] for line in example.splitlines()))
    assert len(load_preregistration(tmp_path / "example.toml").claims[0].conditions) == 3


def test_a_study_finds_the_file_that_registers_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later studies have a file of their own beside the first, which is for all that are in none."""
    later = file.with_name("PREREGISTERED-later.toml")
    later.write_text(TEXT.replace('"collapse"', '"later"'))
    monkeypatch.setattr(preregistration, "REGISTERED", file)
    assert registration_of("later") == later
    assert registration_of("collapse") == registration_of("nothing") == file


WRONG = [
    ('"1000-1003"', '"1000-1003,7"', "line 3: confirmatory_seeds: 7 are tuning seeds, too"),
    ('"1000-1003"', '"1000-"', "line 3: confirmatory_seeds: '1000-' is no seed or range of seeds"),
    ('"1000-1003"', "[]", "confirmatory_seeds: is empty"),
    ('"0-9"', "true", "tuning_seeds: is true, expected a list"),
    (f'"{STUDY.digest}"', '"12ab"', "line 7: study.0.digest: is '12ab', expected 64"),
    ('study = "collapse"', 'study = "colapse"', "line 12: claim.0.study: 'colapse' is not registered"),
    (
        '"fraction_above"',
        '"fraction"',
        "claim.0.condition.1.kind: is 'fraction', expected one of \"difference",
    ),
    ("fraction = 0.9", "", "claim.0.condition.1.fraction: is missing; fraction_above needs it"),
    ("fraction = 0.9", "fraction = 90", "claim.0.condition.1.fraction: is 90, expected a number above 0"),
    ("above = 1.8", "above = 1.8\nfraction = 1", "condition.0.fraction: does not belong to mean_above"),
    ("above = 1.8", 'above = 1.8\nsign = "negative"', "condition.0.sign: does not belong to mean_above"),
    ('"sign-flipped"]', '"guarded"]', "condition.2.against: names 'guarded' itself"),
    ("outcome =", "outcom =", "claim.0.outcom: unknown key (did you mean 'outcome'?)"),
]


@pytest.mark.parametrize(("was", "becomes", "words"), WRONG)
def test_a_mistake_in_the_file_is_named(file: Path, was: str, becomes: str, words: str) -> None:
    """The key, the line and what was expected."""
    assert TEXT.count(was) >= 1
    file.write_text(TEXT.replace(was, becomes, 1))
    with pytest.raises(ConfigError) as caught:
        load_preregistration(file)
    assert words in str(caught.value)


def test_a_fourth_claim_and_a_second_of_one_name_are_refused(file: Path) -> None:
    """At most three are confirmatory: that is what the correction is for."""
    head, claim = TEXT[: TEXT.index("[[claim]]")], TEXT[TEXT.index("[[claim]]") :]
    file.write_text(head + "".join(claim.replace('"guard"', f'"{name}"') for name in "abc"))
    load_preregistration(file)
    file.write_text(head + "".join(claim.replace('"guard"', f'"{name}"') for name in "abca"))
    with pytest.raises(ConfigError) as caught:
        load_preregistration(file)
    assert [str(fault) for fault in caught.value.faults] == [
        "claim: 4 claims, at most 3 are confirmatory (all others are exploratory and stand elsewhere)",
        "claim: 2 are named 'a'",
    ]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Before anything was registered there is nothing to confirm."""
    with pytest.raises(ConfigError, match=r"PREREGISTERED\.toml: no such file"):
        load_preregistration(tmp_path / "PREREGISTERED.toml")


@pytest.fixture
def registered(file: Path) -> Preregistration:
    """The preregistration above, loaded."""
    return load_preregistration(file)


def test_a_run_as_registered_is_let_through(registered: Preregistration) -> None:
    """The seeds in any order."""
    check_preregistered("collapse", STUDY.digest, tuple(reversed(SEEDS)), registered)


@pytest.mark.parametrize(
    ("study", "digest", "seeds", "words"),
    [
        ("colapse", STUDY.digest, SEEDS, ["'colapse' is not registered", "did you mean 'collapse'?"]),
        ("collapse", "0" * 64, SEEDS, ["has digest 000000000000…", STUDY.digest[:12], "register it again"]),
        ("collapse", STUDY.digest, [1000, 1002], ["1001,1003 are missing", "run it with --seeds 1000-1003"]),
        ("collapse", STUDY.digest, [*SEEDS, 2000, 2001], ["2000-2001 are not registered"]),
        ("collapse", STUDY.digest, [*SEEDS, 3], ["seeds: 3 were for tuning"]),
        ("collapse", "0" * 64, range(10), ["digest", "0-9 were for tuning", "1000-1003 are missing"]),
    ],
)
def test_what_differs_is_named(
    study: str, digest: str, seeds: list[int], words: list[str], registered: Preregistration
) -> None:
    """All of it at once, and what to do next."""
    with pytest.raises(ConfigError) as caught:
        check_preregistered(study, digest, seeds, registered)
    for part in words:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"seeds": (1, 2)},
        {"outcomes": ("success",)},
        {"arms": STUDY.arms[:2]},
        {"arms": (*STUDY.arms[:2], Arm("sign-flipped", Scenario(), "another config"))},
    ],
)
def test_a_changed_study_has_another_digest(change: dict, registered: Preregistration) -> None:
    """Arms, their configurations, seeds and outcomes are what is registered."""
    changed = msgspec.structs.replace(STUDY, **change)
    with pytest.raises(ConfigError, match="digest"):
        check_preregistered("collapse", changed.digest, SEEDS, registered)


def test_a_confirmatory_run_returns_the_hash_of_what_it_keeps_to(file: Path) -> None:
    """SHA-256 of the file's bytes, once they are committed."""
    commit(file)
    expected = hashlib.sha256(TEXT.encode()).hexdigest()
    assert require_preregistered(STUDY, SEEDS, file) == preregistration_sha256(file) == expected


def test_a_confirmatory_run_needs_the_commit_first(file: Path) -> None:
    """A file that was changed after the commit, if only in a comment, lets nothing through."""
    commit(file)
    file.write_text(TEXT + "# so that it fits\n")
    with pytest.raises(ConfigError, match=r"differs from the last commit \(commit it unchanged before the"):
        require_preregistered(STUDY, SEEDS, file)


def test_claims_that_the_study_cannot_answer_are_found_before_it_runs(file: Path) -> None:
    """An arm or an outcome that it does not have would cost a whole run."""
    other = msgspec.structs.replace(STUDY, arms=STUDY.arms[:2], outcomes=("success",))
    file.write_text(TEXT.replace(STUDY.digest, other.digest))
    commit(file)
    with pytest.raises(ConfigError) as caught:
        require_preregistered(other, SEEDS, file)
    assert [fault.message for fault in caught.value.faults] == [
        "collapse has no arm 'sign-flipped'",
        "collapse does not keep 'meta_objective'",
    ]
