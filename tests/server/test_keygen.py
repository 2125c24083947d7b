"""``python -m server keygen``: what it makes, and what it never touches."""

import os
from pathlib import Path

import pytest

from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.keys import AllowFile, read_agent_file, read_server_secret
from protocol.transport import public_of
from server.command_line import main


def modes(folder: Path) -> dict[str, str]:
    """Names below a folder with their rights."""
    return {str(path.relative_to(folder)): f"{path.stat().st_mode & 0o777:o}" for path in folder.rglob("*")}


def contents(folder: Path) -> dict[Path, bytes]:
    """All files."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def _careless_umask() -> object:
    """Rights must not depend on it."""
    old = os.umask(0)
    yield
    os.umask(old)


def test_everything_that_a_fleet_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Private files; each agent's file fits the server's; the list binds each key to its id."""
    keys = tmp_path / "new" / "keys"
    assert main(["keygen", str(keys), "--agents", "0-2", "--onboarders", "laptop"]) == 0
    assert modes(keys) == {
        "server.key": "600",
        "allowed.txt": "600",
        "agents": "700",
        **{f"agents/{name}.key": "600" for name in ("agent-0", "agent-1", "agent-2", "laptop")},
    }
    assert keys.stat().st_mode & 0o777 == 0o700
    allowed = AllowFile(keys).read()
    assert len(allowed) == 4
    for agent in range(3):
        own, server = read_agent_file(keys / f"agents/agent-{agent}.key")
        assert server == public_of(read_server_secret(keys))
        assert [allowed.may(public_of(own), other, "train") for other in range(3)] == [
            other == agent for other in range(3)
        ]
    laptop = public_of(read_agent_file(keys / "agents/laptop.key").secret)
    assert allowed.may(laptop, 1, "onboard") and not allowed.may(laptop, 1, "train")
    out = capsys.readouterr().out
    assert "--keys" in out and "copy each agent's file" in out
    assert read_server_secret(keys) not in out


def test_one_more_agent_later(tmp_path: Path) -> None:
    """Earlier keys stay as they are; the list grows by its line, also behind a person's last line."""
    main(["keygen", str(tmp_path / "k"), "--agents", "0"])
    with (tmp_path / "k/allowed.txt").open("a") as file:
        file.write("# a comment without an end of line")
    before = contents(tmp_path / "k")
    assert main(["keygen", str(tmp_path / "k"), "--agents", "7"]) == 0
    after = contents(tmp_path / "k")
    changed = {path.name for path, data in after.items() if before.get(path) != data}
    assert changed == {"agent-7.key", "allowed.txt"}
    assert len(AllowFile(tmp_path / "k").read()) == 2


@pytest.mark.parametrize("again", [[], ["--agents", "5,1"], ["--onboarders", "phone,laptop"]])
def test_no_secret_is_ever_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], again: list[str]
) -> None:
    """Not one of several, and nothing else is made then; the error names the file."""
    main(["keygen", str(tmp_path / "k"), "--agents", "0-2", "--onboarders", "laptop"])
    before = contents(tmp_path / "k")
    assert main(["keygen", str(tmp_path / "k"), *again]) == ExitCode.USAGE
    assert contents(tmp_path / "k") == before
    assert "exists, and a secret is never overwritten; nothing was made" in capsys.readouterr().err


def test_a_second_key_for_an_agent_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its file was copied and deleted here, as advised: the earlier key still counts until its line goes."""
    main(["keygen", str(tmp_path / "k"), "--agents", "0"])
    (tmp_path / "k/agents/agent-0.key").unlink()
    assert main(["keygen", str(tmp_path / "k"), "--agents", "0"]) == 0
    assert "line 6, still lets an earlier key act as agent 0" in capsys.readouterr().out


def test_a_new_server_key(tmp_path: Path) -> None:
    """The old one is moved away by hand; agents keep their keys and need the new public one."""
    keys = tmp_path / "k"
    main(["keygen", str(keys), "--agents", "0"])
    old = read_server_secret(keys)
    (keys / "server.key").rename(keys / "old.key")
    assert main(["keygen", str(keys)]) == 0
    assert read_server_secret(keys) != old
    assert len(AllowFile(keys).read()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agents", "x"], "'x' is neither"),
        (["--agents", "0-20000"], "at most 10000"),
        (["--onboarders", "../x"], "a name has letters"),
        (["--onboarders", ""], "a name has letters"),
        (["--onboarders", "agent-3"], "those of agents"),
        (["--onboarders", "a,a"], "stands twice"),
        ([], "the following arguments are required: DIR"),
    ],
)
def test_wrong_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """The usage code, one line."""
    folder = [str(tmp_path / "k")] if arguments else []
    with pytest.raises(SystemExit) as end:
        main(["keygen", *folder, *arguments])
    assert end.value.code == ExitCode.USAGE
    assert words in capsys.readouterr().err
    assert not (tmp_path / "k").exists()


def test_a_folder_that_others_can_enter_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command to type."""
    (tmp_path / "k").mkdir(mode=0o755)
    assert main(["keygen", str(tmp_path / "k"), "--agents", "0"]) == ExitCode.AUTHENTICATION
    assert f"type: chmod 700 {tmp_path / 'k'}" in capsys.readouterr().err
    assert not contents(tmp_path / "k")


def test_a_server_with_unusable_keys_does_not_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The authentication code, before a run folder is made."""
    main(["keygen", str(tmp_path / "k"), "--agents", "0"])
    (tmp_path / "k/server.key").chmod(0o644)
    run = ["--keys", str(tmp_path / "k"), "--run-dir", str(tmp_path / "run")]
    assert main(run) == ExitCode.AUTHENTICATION
    assert "chmod 600" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
