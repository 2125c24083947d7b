"""Separate programs: the same bits as the plain loop whatever dies, and nothing outlives the runner."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scenarios.cast import Happenings, make_folder
from scenarios.orders import Ended, StartServer
from scenarios.plain import run_plain
from scenarios.processes import Processes, Transport
from scenarios.runner import run_networked
from scenarios.scratch import remove_leftovers
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_script import action
from tests.scenarios.tiny import HEAD, ONBOARDING, tiny

pytestmark = pytest.mark.processes

DEATHS = (
    action("restart", "0", "at_round = 2", 'point = "trained"')
    + action("join", "3", "at_round = 3")
    + action("kill", "server", "at_round = 4", 'point = "array"')
    + action("pause", "1", "at_round = 6", "for_s = 0.1")
)


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_the_bits_survive_deaths_of_agents_and_server(transport: Transport, tmp_path: Path) -> None:
    """An agent and the server die inside rounds; the hashes are those of the loop that lost nobody.

    [complaints 1]
    """
    scenario = tiny(ONBOARDING + DEATHS, "algorithm.baseline=value")
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    found = run_networked(
        scenario, "processes", folder, lambda q: Processes(scenario, folder, q, transport), Silent()
    )
    expected = run_plain(scenario, Silent())
    assert found.failure is None
    assert [line["params_sha256"] for line in found.rounds] == [
        line["params_sha256"] for line in expected.rounds
    ]
    assert found.onboarding == expected.onboarding
    assert verify(tmp_path / "run").outcome == "equal"
    assert found.rounds[1]["missing"] == {"0": "lost"}
    assert [row["event"] for row in folder.rows(folder.events)].count("started") == 2
    assert {path.stem for path in folder.logs.iterdir()} == {
        "server",
        *(f"agent-{goal}" for goal in range(4)),
        "onboard-8",
    }


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_nothing_outlives_the_runner(
    number: signal.Signals, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal in the middle of a run: its exit code, one JSON object, and every child is gone.

    So is its private folder; after SIGKILL the next run removes it. [complaints 23]
    """
    private = tmp_path / "p"
    private.mkdir()
    monkeypatch.setenv("TMPDIR", str(private))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "long.toml").write_text(HEAD.replace("rounds = 6", "rounds = 1000000"))
    command = [sys.executable, "-m", "scenarios", "run", str(tmp_path / "long.toml"), "--json"]
    command += ["--run-dir", str(tmp_path / "run"), "--log-format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stderr is not None
        for line in runner.stderr:
            if "folded" in line:
                break
        children = children_of(runner.pid)
        assert len(children) == 5
        runner.send_signal(number)
        out = runner.stdout.read()
        assert runner.wait(10) == code
    if number != signal.SIGKILL:
        found = json.loads(out)
        assert found["success"] is False
        assert found["error"]["message"] == f"stopped by {number.name}"
        assert found["rounds"] > 0
    for child in children:
        assert gone(child)
    assert len(list(private.iterdir())) == (number == signal.SIGKILL)
    remove_leftovers()
    assert list(private.iterdir()) == []


def children_of(parent: int) -> list[int]:
    """Children of a process."""
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def gone(pid: int) -> bool:
    """Waits for the end of a process that is not ours, at most five seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 5.0)[0])
    finally:
        os.close(descriptor)


async def test_an_end_that_is_cancelled_still_reaps_everybody(tmp_path: Path) -> None:
    """A second signal in the middle of the end: whoever is left is killed and reaped before the loop ends."""
    scenario = tiny()
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    happenings: Happenings = asyncio.Queue()
    cast = Processes(scenario, folder, happenings)
    await cast.carry(StartServer(()))
    closing = asyncio.create_task(cast.close(60.0))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    told = [happenings.get_nowait() for _ in range(happenings.qsize())]
    assert told[-1:] == [Ended("server", -9)]


def test_a_program_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    """The folder of the run vanishes: the server's own message is the cause of the failure.

    [complaints 54]
    """
    scenario = tiny()
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    (tmp_path / "run" / "config.json").unlink()
    found = run_networked(scenario, "processes", folder, lambda q: Processes(scenario, folder, q), Silent())
    assert found.failure is not None
    assert found.failure.code == 2
    assert "config.json is missing" in found.failure.message
