"""The secret of private noise: made once, for its owner alone, and refused where it was not kept well."""

import os
import stat
from pathlib import Path

import pytest

from agent.secret import FILE, noise_secret
from edge_fed.program.exit_codes import ExitCode, ProgramError


def test_it_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """32 bytes of mode 0600, whatever the umask; equal for a restarted agent, another one for every other."""
    before = os.umask(0)
    try:
        first = noise_secret(tmp_path / "run" / "agent-0")
    finally:
        os.umask(before)
    path = tmp_path / "run" / "agent-0" / FILE
    assert len(first) == 32 and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert noise_secret(path.parent) == first == path.read_bytes()
    assert noise_secret(tmp_path / "run" / "agent-1") != first
    assert [entry.name for entry in path.parent.iterdir()] == [FILE]


def test_one_that_another_process_made_meanwhile_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes of one agent must not add different noise to the same update."""
    other = b"o" * 32
    real = os.link

    def later(source: Path, target: Path) -> None:
        target.write_bytes(other)
        target.chmod(0o600)
        real(source, target)

    monkeypatch.setattr(os, "link", later)
    assert noise_secret(tmp_path) == other


def test_one_that_others_can_read_is_refused(tmp_path: Path) -> None:
    """It may be known already."""
    noise_secret(tmp_path)
    (tmp_path / FILE).chmod(0o640)
    with pytest.raises(ProgramError, match=r"others can read it \(mode 0640\)"):
        noise_secret(tmp_path)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_one_of_another_length_is_refused(tmp_path: Path, content: bytes) -> None:
    """A torn or foreign file is no key."""
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / FILE).chmod(0o600)
    with pytest.raises(ProgramError, match="no file of 32 bytes"):
        noise_secret(tmp_path)


def test_a_link_is_not_followed_and_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Both are refused with the path and the flag that mends it."""
    noise_secret(tmp_path / "elsewhere")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere" / FILE)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(ProgramError, match="cannot be kept in") as refused:
            noise_secret(folder)
        assert refused.value.code == ExitCode.USAGE and "--state-dir" in refused.value.hint
