"""Every checker finds what it is for: a real run folder passes, and each forgery of it is found."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.state_store import StateStore
from edge_fed.program.run_folder import RunFolder
from scenarios.campaign.checks import CHECKS, judge
from scenarios.campaign.evidence import read
from scenarios.campaign.sequence import DIARY

pytestmark = pytest.mark.processes

Forge = Callable[[Path], None]
Row = dict[str, Any]


def rows(name: str, change: Callable[[list[Row]], object]) -> Forge:
    """Changes the rows of a JSON-lines file."""

    def forge(folder: Path) -> None:
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        change(lines)
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    return forge


def metrics(round_: int, change: Callable[[Row], object]) -> Forge:
    """Changes a round's line."""
    return rows("metrics.jsonl", lambda lines: change(lines[round_ - 1]))


def whole(name: str, change: Callable[[Row], object]) -> Forge:
    """Changes a JSON file."""

    def forge(folder: Path) -> None:
        content = json.loads((folder / name).read_bytes())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return forge


def journal(event: str, **fields: object) -> Forge:
    """Puts an event at the end of the journal."""
    row = {"schema": 1, "t": 0.0, "event": event, **fields}
    return rows("events.jsonl", lambda lines: lines.append({**row, "time": lines[-1]["time"]}))


def diary(**fields: object) -> Forge:
    """Puts a line before the last one of the diary."""
    return rows(DIARY, lambda lines: lines.insert(-1, {"time": lines[-1]["time"], **fields}))


def log(program: str, text: str, **fields: object) -> Forge:
    """Puts a line at the end of a log."""

    def forge(folder: Path) -> None:
        path = folder / "logs" / f"{program}.log"
        stamp = json.loads(path.read_text().splitlines()[-1])["timestamp"]
        with path.open("a") as file:
            file.write(json.dumps({"event": text, "level": "info", "timestamp": stamp, **fields}) + "\n")

    return forge


def states(folder: Path, agent: int) -> list[Path]:
    """An agent's state files, the oldest first."""
    return sorted(folder.glob(f"agents/*/agent-{agent}/state-*.npz"))


def torn_line(folder: Path) -> None:
    """As a crash leaves it."""
    with (folder / "metrics.jsonl").open("rb+") as file:
        file.truncate(file.seek(0, 2) - 5)


def lost_state(folder: Path) -> None:
    """The newest state of an agent is gone."""
    states(folder, 1)[-1].unlink()


def other_state(folder: Path) -> None:
    """The newest state of an agent has another number in it."""
    path = states(folder, 1)[-1]
    with np.load(path) as arrays:
        content = {name: arrays[name] for name in arrays.files}
    next(iter(content.values())).flat[0] += 1.0
    np.savez(path, **content)


def many_states(folder: Path) -> None:
    """An agent never forgets."""
    store = StateStore.of_agent(folder / "agents", RunFolder.open(folder).run_id, 1)
    newest = store.get(max(store.tags()))
    assert newest is not None
    for tag in (1, 2):
        store.put(tag, newest)


def raw_line(folder: Path) -> None:
    """Python itself has written something."""
    with (folder / "logs" / "agent-1.log").open("a") as file:
        file.write("Traceback (most recent call last):\n")


def half_file(folder: Path) -> None:
    """A program died while it wrote."""
    (folder / "agents" / ".state-000001.npz.77.part").write_bytes(b"half")


def without_checkpoint(folder: Path) -> None:
    """The newest commit is not there."""
    (folder / "checkpoints" / "round-000006.json").unlink()


def late(folder: Path) -> None:
    """The server's last word comes a minute later than it did."""
    rows("events.jsonl", lambda lines: lines[-1].update(time=lines[-1]["time"] + 60))(folder)
    rows(DIARY, lambda lines: lines[-1].update(time=lines[-1]["time"] + 60))(folder)


def socket_file(folder: Path) -> None:
    """The first server's socket is left."""
    path = folder / "server.sock"
    path.touch()
    rows("events.jsonl", lambda lines: lines[0].update(address=f"ipc://{path}"))(folder)


def twice(line: Row) -> None:
    """One update counts twice."""
    line["contributors"].insert(0, line["contributors"][0])


FORGERIES: dict[str, tuple[str, Forge, str]] = {
    "a torn line": ("lines are whole", torn_line, "line 6 of metrics.jsonl has no end"),
    "a missing key": ("lines are whole", metrics(3, lambda line: line.pop("arrivals")), "lacks arrivals"),
    "a missing round": (
        "rounds are complete",
        rows("metrics.jsonl", lambda lines: lines.pop(2)),
        "the rounds",
    ),
    "a short run": ("rounds are complete", rows("metrics.jsonl", lambda lines: lines.pop()), "5 of 6 rounds"),
    "no summary": ("summary agrees", lambda folder: (folder / "summary.json").unlink(), "no summary.json"),
    "another summary": (
        "summary agrees",
        whole("summary.json", lambda s: s.update(rounds=5)),
        "rounds 5, not 6",
    ),
    "a refused update": (
        "missing have a cause",
        metrics(2, lambda line: line.update(missing={"0": "refused: not finite"})),
        "agent 0 is missing in round 2: refused: not finite",
    ),
    "a death of its own": (
        "missing have a cause",
        metrics(3, lambda line: line.update(missing={"3": "lost"})),
        "agent 3 died in round 3, and nothing had killed it",
    ),
    "an update twice": ("records agree with themselves", metrics(3, twice), "counts agent 0 2 times"),
    "a lost update": (
        "records agree with themselves",
        metrics(3, lambda line: line["contributors"].pop()),
        "round 3 asked [0, 1, 2, 3], and accounts for [0, 1, 2]",
    ),
    "counted and missing": (
        "records agree with themselves",
        metrics(3, lambda line: line.update(missing={"1": "lease"})),
        "counts [1] and calls them missing",
    ),
    "a stranger": (
        "records agree with themselves",
        metrics(3, lambda line: line.update(eligible=[0, 1, 2])),
        "asks [3], who are not eligible",
    ),
    "an opening twice": (
        "journal agrees",
        journal("round_opened", round=3, eligible=[0, 1, 2, 3], cohort=[0, 1, 2, 3]),
        "round 3 is committed and was opened 2 times",
    ),
    "another cohort": (
        "journal agrees",
        rows(
            "events.jsonl", lambda lines: [row.update(cohort=[0]) for row in lines if row.get("round") == 3]
        ),
        "was opened with cohort [0]",
    ),
    "excused and counted": (
        "journal agrees",
        journal("excused", agent=1, round=6, reason="lease"),
        "round 6 counts agent 1, which was excused in it",
    ),
    "two updates": (
        "nothing is refused",
        journal("conflict", agent=1, round=3),
        "agent 1 sent two different updates of round 3",
    ),
    "another line": (
        "books agree",
        whole("checkpoints/round-000003.json", lambda sidecar: sidecar["line"].update(seconds=9.9)),
        "the checkpoint of round 3 and metrics.jsonl have different lines",
    ),
    "another count": (
        "books agree",
        whole(
            "checkpoints/round-000003.json", lambda sidecar: sidecar["book"]["last_counted"].update({"1": 2})
        ),
        "the book of round 3 last counted",
    ),
    "another sum": (
        "books agree",
        whole(
            "checkpoints/round-000003.json", lambda sidecar: sidecar["book"]["trajectories"].update({"1": 1})
        ),
        "the book of round 3 has trajectories",
    ),
    "another verdict": (
        "books agree",
        whole("checkpoints/round-000003.json", lambda sidecar: sidecar["book"]["last"]["1"].update(crc32=1)),
        "the book of round 3 says of agent 1",
    ),
    "no checkpoint": ("newest commit is there", without_checkpoint, "the newest checkpoint is of 5"),
    "another checksum": (
        "verifies",
        metrics(3, lambda line: line["contributors"][0].update(crc32=1)),
        "different at round 3",
    ),
    "another hash": (
        "equals the plain loop",
        metrics(3, lambda line: line.update(params_sha256="0" * 64)),
        "round 3 has hash 000000000000",
    ),
    "a lost state": ("agents hold their state", lost_state, "agent 1 was counted in round 6, and holds"),
    "another state": ("agents hold their state", other_state, "agent 1 holds another"),
    "many states": ("agents hold their state", many_states, "agent 1 keeps the states of rounds"),
    "a line of Python's": ("logs are ours", raw_line, "has a line that no program wrote: Traceback"),
    "a trace": ("logs are ours", log("server", "broken", exception="Traceback"), "server failed: broken"),
    "an error": (
        "logs are ours",
        log("agent-1", "broken", level="error"),
        "agent-1 reports an error: broken",
    ),
    "an agent's nameless wait": ("waits are named", log("agent-1", "waiting for it"), "waits without a name"),
    "an endless wait": ("waits are named", log("server", "waiting for it"), "waits without an end"),
    "a wait for nobody": (
        "waits are named",
        log("server", "waiting for updates of round 3: 2 s left, then it goes on", missing=[]),
        "does not say for whom",
    ),
    "silence": (
        "nothing is silent",
        late,
        "nothing was said for 6",
    ),
    "an undocumented end": (
        "programs end in order",
        diary(what="ended", child="agent-1", code=77, why=""),
        "agent-1 ended with the undocumented code 77",
    ),
    "an end for a fault": (
        "programs end in order",
        diary(what="ended", child="agent-1", code=5, why="gave up"),
        "agent-1 ended with code 5: gave up",
    ),
    "an end by a signal": (
        "programs end in order",
        diary(what="ended", child="agent-3", code=-11, why=""),
        "agent-3 was ended by signal 11, which nothing had sent",
    ),
    "a socket file": ("no socket file", socket_file, "server.sock is still there"),
    "a half-written file": ("no parts", half_file, "agents/.state-000001.npz.77.part was never finished"),
}


def test_a_real_run_passes_every_check(original: Path) -> None:
    """Two deaths and a pause leave nothing to find."""
    assert judge(read(original)) == ()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(name: str, folder: Path) -> None:
    """Each checker finds the forgery that it is for, and says what and where."""
    check, forge, text = FORGERIES[name]
    forge(folder)
    found = list(CHECKS[check](read(folder)))
    assert any(text in one for one in found), found


def test_a_run_that_ended_with_a_fault_is_found(folder: Path) -> None:
    """The last leg's code and reason decide; too few agents must be named, and nobody may be there."""
    check = CHECKS["rounds are complete"]

    def ended(code: int, problem: str) -> list[str]:
        rows(DIARY, lambda lines: lines[-1].update(code=code, problem=problem))(folder)
        return list(check(read(folder)))

    assert ended(1, "a bug") == ["the run ended with code 1: a bug"]
    assert "without saying which" in ended(3, "so it is")[0]
    assert ended(3, "0 training agents are here, 1 are needed; missing: 0") == []
    assert (
        "although somebody was there" in ended(3, "1 training agents are here, 2 are needed; missing: 0")[0]
    )


def test_a_process_that_is_left_is_found(folder: Path) -> None:
    """It has the run folder in its command line."""
    command = [sys.executable, "-c", "print(flush=True); input()", str(folder / "agents")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # only then is its command line sure to be its own
        found = list(CHECKS["no process"](read(folder)))
        process.communicate(b"\n")
    assert len(found) == 1
    assert f"process {process.pid} is still there" in found[0]
    assert list(CHECKS["no process"](read(folder))) == []


def test_a_lock_that_is_held_is_found(folder: Path) -> None:
    """A server still uses the folder."""
    evidence = read(folder)
    with RunFolder.open(folder).locked():
        assert "is in use by another server" in next(CHECKS["no lock"](evidence))
    assert list(CHECKS["no lock"](evidence)) == []


def test_every_check_has_a_forgery() -> None:
    """A checker that cannot fail is none."""
    alone = {"no process", "no lock"}  # tests of their own
    assert {check for check, _, _ in FORGERIES.values()} | alone == set(CHECKS)


def test_evidence_that_cannot_be_read_is_a_finding(folder: Path) -> None:
    """A checker that stumbles says so, and the others go on."""
    rows("metrics.jsonl", lambda lines: [line.pop("params_sha256") for line in lines])(folder)
    found = judge(read(folder))
    assert any(finding.text.startswith("cannot be checked") for finding in found)
    assert any("params_sha256" in finding.text for finding in found if finding.check == "lines are whole")
