"""Key files: what is refused, and what the error tells a person to type."""

import os

import pytest

from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.keys import (
    MAX_BYTES,
    AllowFile,
    check_private_folder,
    find_agent_file,
    make_private_folder,
    read_agent_file,
    read_server_secret,
    write_new_secret,
)

A, B = ("0" * 39 + letter for letter in "ab")
GOOD = f"# comment\n\nsecret = {A}\nserver={B}\n"


@pytest.fixture
def folder(tmp_path):
    """A private folder."""
    make_private_folder(tmp_path / "keys")
    return tmp_path / "keys"


def written(folder, text, name="agent-0.key", mode=0o600):
    """A file with these rights."""
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_an_agent_s_file(folder):
    """Two keys; comments and empty lines do not count."""
    assert read_agent_file(written(folder, GOOD)) == (A, B)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o606])
def test_secrets_that_others_can_read_are_refused(folder, mode):
    """With the command to type."""
    path = written(folder, GOOD, mode=mode)
    with pytest.raises(ProgramError) as refused:
        read_agent_file(path)
    assert refused.value.code is ExitCode.AUTHENTICATION
    assert refused.value.hint == f"type: chmod 600 {path}"
    assert f"(mode {mode:04o})" in refused.value.message
    os.system(refused.value.hint.removeprefix("type: "))
    assert read_agent_file(path) == (A, B)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"secret = {A}\n", "has no line server"),
        (f"secret = {A}\nsecret = {A}\n", "line 2: expected one line each"),
        (f"public = {A}\n", "line 1: expected one line each"),
        ("secret\n", "line 1"),
        (f"secret = {A[:-1]}\n", "secret has 39 characters"),
        (f"secret = {A[:-1]}~\n", "which no key has"),
        ("secret = \x00ü\n", "secret has 2 characters"),
    ],
)
def test_errors_name_the_line_and_quote_no_secret(folder, text, words):
    """A secret must not come into a log."""
    with pytest.raises(ProgramError) as refused:
        read_agent_file(written(folder, text))
    assert words in refused.value.message
    assert A[:8] not in refused.value.message


def test_a_missing_file_is_named(folder):
    """An agent's file, by path or by folder, and the server's."""
    with pytest.raises(ProgramError, match=r"none\.key cannot be read: No such file"):
        read_agent_file(folder / "none.key")
    with pytest.raises(ProgramError, match="no key file for goal 3") as refused:
        find_agent_file(folder, 3)
    assert "--agents 3" in refused.value.hint
    with pytest.raises(ProgramError, match=r"has no server\.key") as refused:
        read_server_secret(folder)
    assert "keygen" in refused.value.hint


def test_an_agent_s_file_is_found_in_its_folder(folder):
    """Beside, or below in agents/."""
    (folder / "agents").mkdir()
    below = written(folder / "agents", GOOD)
    assert find_agent_file(folder, 0) == below
    beside = written(folder, GOOD)
    assert find_agent_file(folder, 0) == find_agent_file(beside, 0) == beside


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_regular_file_is_refused_by_name(folder, kind):
    """At once: a FIFO without a writer would block for good, a device could give anything."""
    for name in ("agent-0.key", "server.key", "allowed.txt"):
        path = folder / name
        if kind == "fifo":
            os.mkfifo(path, 0o600)
        elif kind == "folder":
            path.mkdir(0o700)
        else:
            path.symlink_to("/dev/zero")
    reads = (
        lambda: read_agent_file(folder / "agent-0.key"),
        lambda: read_server_secret(folder),
        AllowFile(folder).read,
    )
    for read in reads:
        with pytest.raises(ProgramError, match=r"(agent-0\.key|server\.key|allowed\.txt) is no regular file"):
            read()


def test_a_file_that_is_too_large_is_refused_and_not_cut(folder):
    """A list that is cut could revoke keys, or change a right in its last line."""
    path = written(folder, f"{A} 0\n", "allowed.txt")
    with path.open("a") as file:
        file.write("#" * (MAX_BYTES - file.tell() - 1) + "\n")
    assert len(AllowFile(folder).read()) == 1
    with path.open("a") as file:
        file.write("\n")
    with pytest.raises(ProgramError, match=r"allowed\.txt is larger than 16 MiB"):
        AllowFile(folder).read()


def test_a_byte_order_mark_does_no_harm(folder):
    """Some editors begin a file with one; UTF-16 is refused by name."""
    assert read_agent_file(written(folder, "\ufeff" + GOOD)) == (A, B)
    assert read_agent_file(written(folder, f"\ufeffsecret = {A}\nserver = {B}\n")) == (A, B)
    written(folder, f"\ufeff{A} 0\n", "allowed.txt")
    assert AllowFile(folder).read().may(A, 0, "train")
    path = written(folder, "")
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(ProgramError, match="is no UTF-8 text"):
        read_agent_file(path)


def test_a_folder_that_others_can_enter_is_refused(folder):
    """The server's folder: who can change it can let himself in."""
    folder.chmod(0o755)
    for check in (check_private_folder, make_private_folder, read_server_secret):
        with pytest.raises(ProgramError) as refused:
            check(folder)
        assert refused.value.hint == f"type: chmod 700 {folder}"


def test_a_secret_is_written_once(folder):
    """Private from its first byte on; never over another file, also not through a link."""
    write_new_secret(folder / "a", "x")
    assert (folder / "a").stat().st_mode & 0o777 == 0o600
    (folder / "link").symlink_to(folder / "nowhere")
    for name in ("a", "link"):
        with pytest.raises(ProgramError, match="never overwritten"):
            write_new_secret(folder / name, "y")
    assert (folder / "a").read_text() == "x" and not (folder / "nowhere").exists()


def test_the_allow_list_is_seen_to_change(folder):
    """Written in place, replaced, removed; and it must not be others' to write."""
    path = written(folder, f"{A} 0\n", "allowed.txt")
    file = AllowFile(folder)
    stamps = [file.stamp()]
    assert len(file.read()) == 1 and file.stamp() == stamps[0] is not None
    path.write_text(f"{A} 0\n{B} 1\n")
    stamps.append(file.stamp())
    assert len(file.read()) == 2
    written(folder, f"{A} 0\n{B} 2\n", "aside").rename(path)
    stamps.append(file.stamp())
    assert file.read().may(B, 2, "train")
    path.chmod(0o622)
    with pytest.raises(ProgramError, match="can be changed by other users"):
        file.read()
    path.unlink()
    stamps.append(file.stamp())
    assert len(set(stamps)) == 4
    with pytest.raises(ProgramError, match="cannot be read"):
        file.read()
