"""One run, the same bits everywhere: plain loop, tasks over inproc, programs over ipc and over tcp.

Every networked run here has random delays on its links, and the test asserts that updates really arrived
in another order than they are folded in; otherwise it would show nothing.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from edge_fed.params import params_sha256
from edge_fed.program import log
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from scenarios.cast import make_folder
from scenarios.inproc import Tasks
from scenarios.outcome import Outcome
from scenarios.plain import run_plain
from scenarios.processes import Processes
from scenarios.runner import run_networked
from scenarios.script import load_scenario
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_script import action
from tests.scenarios.tiny import tiny

JITTER = "agents.0.link={ latency_s = 0.001, jitter_s = 0.01 }"
CASES = {
    "all are there": ((), ()),
    "a late joiner": ((action("join", "3", "at_round = 4"),), ()),
    "half of them asked": ((), ("algorithm.participation=0.5",)),
    "state and a restart": (
        (action("restart", "1", "at_round = 3", 'point = "trained"'),),
        ("algorithm.baseline=value",),
    ),
    "control variates and a restart": (
        (action("restart", "1", "at_round = 4", 'point = "trained"'),),
        ("algorithm.correction=control_variate", "algorithm.baseline=value", "algorithm.participation=0.5"),
    ),
}
EVERYTHING = (
    tuple(entry for case in ("a late joiner", "state and a restart") for entry in CASES[case][0]),
    ("algorithm.baseline=value", "algorithm.participation=0.8"),
)


def scenario_of(case: tuple[tuple[str, ...], tuple[str, ...]]) -> Scenario:
    """A tiny scenario with random delays."""
    timeline, settings = case
    return tiny("".join(timeline), JITTER, *settings)


def networked(scenario: Scenario, runtime: str, path: Path) -> tuple[Outcome, RunFolder]:
    """One run over ``inproc``, ``ipc`` or ``tcp``."""
    folder = make_folder(scenario, path, overwrite=False)
    if runtime != "inproc":
        cast = lambda queue: Processes(scenario, folder, queue, runtime)  # noqa: E731
        return run_networked(scenario, "processes", folder, cast, Silent()), folder
    with (folder.logs / "inproc.log").open("a", buffering=1) as file:
        logger = log.configure("text", "info", file)
        tasks = lambda queue: Tasks(scenario, folder, queue, logger)  # noqa: E731
        return run_networked(scenario, "inproc", folder, tasks, Silent()), folder


def hashes(outcome: Outcome) -> list[str]:
    """The params hash of every round."""
    return [line["params_sha256"] for line in outcome.rounds]


def arrived_out_of_order(outcome: Outcome) -> bool:
    """Whether the updates of some round came in another order than they were folded in."""
    folded = [[part["agent"] for part in line["contributors"]] for line in outcome.rounds]
    arrived = [line["arrivals"] for line in outcome.rounds]
    assert [sorted(agents) for agents in arrived] == folded
    return arrived != folded


def assert_equal_to_plain(scenario: Scenario, runtime: str, path: Path) -> Outcome:
    """Runs both and compares every round; the record must replay."""
    expected, (found, _) = run_plain(scenario, Silent()), networked(scenario, runtime, path)
    assert found.failure is None
    assert hashes(found) == hashes(expected)
    assert len(set(hashes(found))) == len(hashes(found)), "a run that stands still shows nothing"
    assert arrived_out_of_order(found)
    assert verify(path).outcome == "equal"
    return found


def test_agents_have_weights_of_their_own(tmp_path: Path) -> None:
    """[complaints 64] Honoured alike by server, plain loop and verify, and written down with each update."""
    link = "link={latency_s=0.001,jitter_s=0.01}"
    tables = f'agents=[{{goals="0-1",weight=4,{link}}},{{goals="2-3",{link}}}]'
    found = assert_equal_to_plain(tiny("", tables), "inproc", tmp_path / "run")
    assert [[part["weight"] for part in line["contributors"]] for line in found.rounds] == [[4, 4, 1, 1]] * 6
    alike = run_plain(tiny("", tables.replace("weight=4", "weight=1")), Silent())
    assert hashes(found)[0] != hashes(alike)[0]
    every = tables.replace('"0-1"', '"0-3"').partition(",{goals=")[0] + "]"
    assert hashes(run_plain(tiny("", every), Silent())) == hashes(alike), "only their ratios matter"


@pytest.mark.parametrize("case", CASES)
def test_inproc_equals_plain(case: str, tmp_path: Path) -> None:
    """Tasks over inproc:// with random delays: every round's hash is that of the plain loop.

    [complaints 38]
    """
    assert_equal_to_plain(scenario_of(CASES[case]), "inproc", tmp_path / "run")


@pytest.mark.processes
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_programs_equal_plain(transport: str, tmp_path: Path) -> None:
    """Separate programs with delays, a late joiner, sampling, state, and an agent killed and restarted.

    [complaints 8, 9, 38]
    """
    found = assert_equal_to_plain(scenario_of(EVERYTHING), transport, tmp_path / "run")
    eligible = [line["eligible"] for line in found.rounds]
    assert eligible[2:4] == [[0, 1, 2], [0, 1, 2, 3]], "the late joiner is first eligible in round 4"


SHORT = (
    "algorithm.rounds=3",
    "algorithm.local_steps=2",
    "algorithm.baseline=value",
    "environment.horizon=20",
    "agents.0.goals=0-3",
    "onboarding.goals=[]",
    JITTER,
)


@pytest.mark.processes
@pytest.mark.parametrize("family", ["cartpole", "pendulum", "thermostats"])
def test_programs_of_the_library_equal_plain(family: str, tmp_path: Path) -> None:
    """Dense rewards, early ends, torques in a box: programs with delays, the bits of the plain loop."""
    assert_equal_to_plain(load_scenario(family, list(SHORT)), "ipc", tmp_path / "run")


@pytest.mark.processes
@pytest.mark.parametrize("point", ["theta", "update", "array", "committed"])
def test_a_killed_server_changes_no_bits(point: str, tmp_path: Path) -> None:
    """SIGKILL after THETA, between UPDATEs, in and after the commit; then --resume.

    Every step of the commit: `tests.server.test_crash`.

    [complaints 18, 20] [wire 20, 21]
    """
    timeline = (action("kill", "server", "at_round = 3", f'point = "{point}"'),)
    settings = ("algorithm.baseline=value", "algorithm.participation=0.8", "federation.keep_checkpoints=2")
    scenario = scenario_of((timeline, settings))
    found, folder = networked(scenario, "ipc", tmp_path / "run")
    assert found.failure is None
    assert hashes(found) == hashes(run_plain(scenario, Silent()))
    assert verify(tmp_path / "run").outcome == "equal"
    events = [row["event"] for row in folder.rows(folder.events)]
    assert events.count("started") == 2, "the server really died once"
    assert not any(line["missing"] for line in found.rounds), "the resumed round lost nobody"


@pytest.mark.processes
def test_control_variates_survive_the_death_of_agent_and_server(tmp_path: Path) -> None:
    """Half of the agents asked; SIGKILL of the server in round 3, of an agent in round 4: the plain bits."""
    timeline, settings = CASES["control variates and a restart"]
    killed = (action("kill", "server", "at_round = 3", 'point = "update"'), *timeline)
    scenario = scenario_of((killed, settings))
    found, folder = networked(scenario, "ipc", tmp_path / "run")
    expected = run_plain(scenario, Silent())
    assert found.failure is None
    assert hashes(found) == hashes(expected)
    for name in ("control_sha256", "state_resets"):
        assert [line[name] for line in found.rounds] == [line[name] for line in expected.rounds]
    assert [list(line["missing"]) for line in found.rounds] == [[], [], [], ["1"], [], []]
    assert [row["event"] for row in folder.rows(folder.events)].count("started") == 2
    assert verify(tmp_path / "run").outcome == "equal"
    with np.load(folder.checkpoint(6)[0]) as file:
        assert params_sha256(file["control"]) == found.rounds[-1]["control_sha256"]


def test_verify_finds_another_control_variate_in_a_checkpoint(tmp_path: Path) -> None:
    """The parameters are right, the array beside them is not what its sidecar says."""
    _, folder = networked(scenario_of(CASES["control variates and a restart"]), "inproc", tmp_path / "run")
    array = folder.checkpoint(4)[0]
    with np.load(array) as file:
        arrays = dict(file)
    np.savez(array, **{**arrays, "control": arrays["control"] + 1.0})
    with pytest.raises(ProgramError, match=r"round-000004\.npz cannot be read: control of .* does not have"):
        verify(tmp_path / "run")


def test_verify_fails_on_an_altered_cohort_and_names_the_round(tmp_path: Path) -> None:
    """Changing one logged cohort makes the run different at that round."""
    _, folder = networked(scenario_of(CASES["half of them asked"]), "inproc", tmp_path / "run")
    lines = list(folder.rows(folder.metrics))
    absent = next(agent for agent in lines[3]["eligible"] if agent not in lines[3]["cohort"])
    lines[3]["cohort"] = sorted([*lines[3]["cohort"][1:], absent])
    folder.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = verify(tmp_path / "run")
    assert (found.outcome, found.round) == ("different", 4)
    assert "cohort" in found.differences[0]


@pytest.mark.processes
def test_programs_train_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the agents' training broken no runner can help: the run fails instead of using the plain loop."""
    (tmp_path / "sitecustomize.py").write_text(
        "import edge_fed.federated.local_update as broken\n"
        "def local_update(*_arguments, **_settings):\n    raise RuntimeError('broken on purpose')\n"
        "broken.local_update = local_update\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found, _ = networked(tiny(), "ipc", tmp_path / "run")
    assert found.failure is not None
    assert "broken on purpose" in found.failure.message
