"""Every committed input through its target: seeds, what the fuzzer learned, and what it once found."""

import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import CORPUS, EXIT_MISSING, FINDINGS, main
from tests.fuzz.catch import finding, minimise
from tests.fuzz.framing import frame, unframe
from tests.fuzz.targets import TARGETS

LARGEST_FINDING = 1000


def inputs(folder: Path) -> list[Path]:
    """The files of a folder; none if it is not there."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_breaks_no_property(name: str) -> None:
    """[wire 30, 31, 35, 47] [complaints 49] Each input ends as the specification says."""
    paths = inputs(CORPUS / name)
    assert paths
    broken = {path.name: found for path in paths if (found := finding(TARGETS[name], path.read_bytes()))}
    assert broken == {}


@pytest.mark.parametrize("path", inputs(FINDINGS), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_was_found_once_stays_fixed(path: Path) -> None:
    """Minimised inputs that broke a property before it was mended."""
    data = path.read_bytes()
    assert len(data) <= LARGEST_FINDING
    TARGETS[path.parent.name](data)


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"", b"x"], [b"EFED\x01\x01\x00\x00", b"ab", b"", b"c"], [b"a"] * 15]
)
def test_frames_survive_as_bytes(frames: list[bytes]) -> None:
    """What a seed was made from is what its target sees."""
    assert unframe(frame(frames)) == frames


def test_a_finding_is_told_apart_and_made_small() -> None:
    """The runner keeps one input per broken property, without what does not matter."""

    def target(data: bytes) -> None:
        if b"x" in data:
            raise ValueError(data)
        assert b"yz" not in data

    noise = bytes(range(65)) * 3
    assert minimise(target, noise + b"x" + noise) == b"x"
    assert minimise(target, noise + b"yz" + noise) == b"yz"
    assert finding(target, b"yz") != finding(target, b"x") and finding(target, b"") is None


def test_without_atheris_the_runner_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is an extra, and no test needs it."""
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert main(["codec", "--seconds", "1"]) == EXIT_MISSING
    assert "pip install -e '.[fuzz]'" in capsys.readouterr().err
