"""``python -m agent live``: what it prints, keeps, survives and refuses."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent import events as learner_events
from agent import live, live_flags
from agent.device_lock import DeviceLock
from agent.learner import Learner
from agent.life_worker import LifeWorker
from agent.live import main
from agent.live_flags import parser
from agent.policy_file import PolicyFile, packed, read
from edge_fed.config import EnvironmentConfig, Onboarding, Overrides, PolicyConfig, RunConfig
from edge_fed.errors import BadEnvironment
from edge_fed.federated.task import initial_params
from edge_fed.program.exit_codes import ExitCode

CONFIG = RunConfig(
    seed=5,
    environment=EnvironmentConfig(args={"radius": 0.6}),
    policy=PolicyConfig(args={"hidden": [4]}),
    onboarding=Onboarding(m_adapt=(20,), eval_episodes=8, scratch=(), random=False),
)
ROOT = Path(__file__).parents[2]
AWAY = ["--change-at", "120", "--change", "args.radius=0.01"]
SHORT = ["--episodes", "400", "--reference", "60", "--run-length", "500", *AWAY]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of goal 7, adapted from the initial parameters."""
    folder = tmp_path_factory.mktemp("policy")
    learner = Learner(7, Overrides(), folder, save=folder / "policy-7.npz")
    learner.perform(learner_events.Build(1, msgspec.to_builtins(CONFIG), b"R" * 16), lambda _: None)
    learner.perform(learner_events.Onboard(2, 150, initial_params(CONFIG)), lambda _: None)
    return folder / "policy-7.npz"


def lived(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The news of a life in this process that ends with 0."""
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def kept(folder: Path) -> tuple[bytes, list[str], list[str]]:
    """Parameters, counters, and journal without the starts, of which an interrupted life has more."""
    found = read(folder / "live-7.npz")
    lines = (folder / "live-7.jsonl").read_text().splitlines()
    quiet = [line for line in lines if '"begins"' not in line and '"goes on"' not in line]
    return found.params.tobytes(), [json.dumps(found.about["life"])], quiet


def test_a_life_as_a_person_sees_it(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each thing it does: reference, change, alarm, re-onboarding, end."""
    assert main([str(policy), *SHORT]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "begins", "reference", "change", "alarm", "re-onboarding", "reference", "end",
    ]  # fmt: skip
    assert lines[2] == "episode 120: change: the simulated environment gets args.radius=0.01"
    assert "1 alarms, 1 re-onboardings, 0 of 0 learning steps taken; 24 episodes were" in lines[-1]


def test_a_life_as_a_machine_sees_it(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Objects with the same words and all figures; the trajectories of the file are those of onboarding."""
    news = lived(capsys, str(policy), *SHORT, "--onboard", "40")
    assert [line["what"] for line in news].count("alarm") == 1
    (alarm,) = (line for line in news if line["what"] == "alarm")
    assert alarm["return"] < alarm["reference"] and alarm["cusum"] > alarm["threshold"] > 0
    (again,) = (line for line in news if line["what"] == "re-onboarding")
    assert again["episodes"] == 40 + 2 * 4 and again["factor"] in (0, 0.25, 0.5, 1)
    assert lived(capsys, str(policy), *SHORT, "--onboard", "40") == news  # seeded
    assert lived(capsys, str(policy), *SHORT, "--onboard", "40", "--seed", "6") != news


def test_learning_changes_the_policy_and_says_so(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step that is taken is in the kept policy; one that is not leaves it as it was."""
    news = lived(capsys, str(policy), "--learn", "50", "--episodes", "500", "--state", str(tmp_path))
    steps = [line for line in news if line["what"] in ("step taken", "step not taken")]
    assert len(steps) == 10 and all(len(line["trials"]) == 3 for line in steps)
    assert news[-1]["taken"] == sum(line["factor"] > 0 for line in steps) > 0
    now = read(tmp_path / "live-7.npz")
    assert not np.array_equal(now.params, read(policy).params)
    assert np.array_equal(now.initial, read(policy).initial)


@pytest.mark.parametrize("at", [1, 6, 12, 13, 14, 17])
def test_a_life_that_died_anywhere_goes_on_with_the_same_bits(
    at: int, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ended before its n-th piece of work: parameters, counters, journal are those of a life in one piece."""
    learning = [str(policy), *SHORT, "--learn", "20"]
    lived(capsys, *learning, "--state", str(tmp_path / "whole"))
    done = 0
    perform = LifeWorker.perform

    def dies(self: LifeWorker, *arguments: Any, **named: Any) -> Any:
        nonlocal done
        done += 1
        if done == at:
            raise KeyboardInterrupt
        return perform(self, *arguments, **named)

    monkeypatch.setattr(LifeWorker, "perform", dies)
    with pytest.raises(KeyboardInterrupt):
        main([*learning, "--state", str(tmp_path / "parts")])
    capsys.readouterr()
    lived(capsys, *learning, "--state", str(tmp_path / "parts"))
    assert kept(tmp_path / "parts") == kept(tmp_path / "whole")


def command(*arguments: str) -> list[str]:
    """As a program."""
    return [sys.executable, "-P", "-m", "agent", "live", *arguments]


@pytest.mark.processes
def test_kill_9_costs_nothing(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is killed after its first news and started again ends where one in one piece ends."""
    long = [str(policy), *SHORT, "--episodes", "2000"]
    lived(capsys, *long, "--state", str(tmp_path / "whole"))
    parts = [*long, "--state", str(tmp_path / "parts")]
    with subprocess.Popen(command(*parts), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and "begins" in program.stdout.readline()
        assert "reference" in program.stdout.readline()
        program.kill()
    assert 0 < read(tmp_path / "parts" / "live-7.npz").about["life"]["state"]["episode"] < 2000
    lived(capsys, *parts)
    assert kept(tmp_path / "parts") == kept(tmp_path / "whole")


@pytest.mark.processes
def test_the_page_is_true(policy: Path, tmp_path: Path) -> None:
    """The commands of docs/life.md run as they stand, and print what is in its example, of that kind."""
    page = (ROOT / "docs" / "life.md").read_text(encoding="utf8")
    ((typed,), (shown,)) = (
        re.findall(f"^```{kind}\n(.*?)^```", page, re.M | re.S) for kind in ("sh", "text")
    )
    shutil.copy2(policy, tmp_path)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    said = []
    for line in typed.splitlines():
        here = line.replace("python ", f"{shlex.quote(sys.executable)} ")
        done = subprocess.run(here, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
        said.append(done.stdout)
    kinds = [{line.split(": ")[1] for line in text.splitlines()} for text in (said[0], shown)]
    assert kinds[0] >= {"begins", "reference", "change", "end"} and kinds[0] <= kinds[1] | {"alarm"}
    assert len(json.loads(said[1])["distribution"]) == 8


@pytest.mark.processes
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_after_the_work_at_hand(number: int, code: int, policy: Path, tmp_path: Path) -> None:
    """With its own exit code, the state kept, and no traceback."""
    line = command(str(policy), "--episodes", "100000000", "--state", str(tmp_path))
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and "begins" in program.stdout.readline()
        assert "reference" in program.stdout.readline()
        os.kill(program.pid, number)
        _, said = program.communicate(timeout=60)
    assert program.returncode == code and said == ""
    assert read(tmp_path / "live-7.npz").about["life"]["state"]["episode"] > 0


@pytest.mark.processes
def test_a_reader_who_leaves_ends_the_life_without_a_traceback(policy: Path) -> None:
    """As `| head -1` does."""
    line = command(str(policy), "--episodes", "100000")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and "begins" in program.stdout.readline()
        program.stdout.close()
        assert program.stderr is not None and program.stderr.read() == ""
    assert program.returncode == ExitCode.FAILED


@pytest.mark.processes
def test_it_needs_no_network(policy: Path) -> None:
    """Neither sockets' library nor torch, matplotlib or Gymnasium are loaded for a life."""
    code = (
        "import sys; from agent.__main__ import main; "
        f"code = main(['live', {str(policy)!r}, '--episodes', '30']); "
        "print([n for n in ('zmq', 'torch', 'matplotlib', 'gymnasium') if n in sys.modules], code)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_the_state_of_another_life_is_refused(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another seed: named, nothing is written."""
    lived(capsys, str(policy), "--episodes", "20", "--state", str(tmp_path))
    before = (tmp_path / "live-7.npz").read_bytes()
    assert main([str(policy), "--episodes", "20", "--state", str(tmp_path), "--seed", "6"]) == ExitCode.USAGE
    assert "of another life: another seed" in capsys.readouterr().err
    assert (tmp_path / "live-7.npz").read_bytes() == before


def test_two_lives_do_not_share_a_state(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second is told who is there."""
    from agent.life_store import LifeStore

    with LifeStore(tmp_path, read(policy), 7, 5):
        assert main([str(policy), "--state", str(tmp_path)]) == ExitCode.USAGE
    assert "another program lives in" in capsys.readouterr().err


def test_a_life_does_not_begin_beside_another_program_on_its_plant(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent of the same goal may hold it; a simulated life is nobody's matter."""
    (tmp_path / "device.toml").write_text(PLANT)
    with DeviceLock(tmp_path, 7):
        lived(capsys, str(policy), "--episodes", "20", "--state", str(tmp_path))
        arguments = ["--device", str(tmp_path / "device.toml"), "--state", str(tmp_path)]
        assert main([str(policy), *arguments]) == ExitCode.USAGE
    found = capsys.readouterr()
    assert found.out == "" and "the device of goal 7 is in use by another program" in found.err


def test_an_environment_that_fails_ends_the_life_with_its_episode(
    policy: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 and one line."""

    def fails(*_: Any, **__: Any) -> None:
        raise BadEnvironment("the sensor is gone")

    monkeypatch.setattr(LifeWorker, "perform", fails)
    assert main([str(policy)]) == ExitCode.FAILED
    assert capsys.readouterr().err == "error: after 0 episodes: the sensor is gone\n"


def test_every_flag_is_read() -> None:
    """[complaints 37] By the program whose flag it is."""
    source = Path(live.__file__).read_text() + Path(live_flags.__file__).read_text()
    names = {action.dest for action in parser()._actions} - {"help"}
    assert [name for name in names if f"options.{name}" not in source] == []


def test_what_it_keeps_lies_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's ``os.chdir`` moves the program, but neither its state nor its picture."""
    monkeypatch.chdir(tmp_path)
    options = parser().parse_args(["p.npz", "--state", "life", "--picture", "life.png"])
    assert (options.state, options.picture) == (tmp_path / "life", tmp_path / "life.png")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--change", "args.radius=1"], "belong together"),
        (["--change-at", "3"], "belong together"),
        (["--change-at", "3", "--change", "radius=1"], "args.NAME=VALUE"),
        (["--change-at", "3", "--change", "goal=x"], "whole number"),
        (["--learn", "4"], "from 5 on"),
        (["--reference", "2"], "from 20 on"),
        (["--fall", "nan"], "no number from 0.1"),
        (["--episodes", "-1"], "from 0 on"),
    ],
)
def test_wrong_flags_are_one_line(
    arguments: list[str], named: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the usage code, and where help is."""
    with pytest.raises(SystemExit) as caught:
        main([str(policy), *arguments])
    said = capsys.readouterr().err
    assert caught.value.code == ExitCode.USAGE
    assert named in said and said.endswith("see python -m agent live --help\n") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--goal", "99"], "goals 0 to 8"),
        (["--change-at", "3", "--change", "args.radios=1"], "radios"),
        (["--change-at", "3", "--change", "goal=99"], "goals 0 to 8"),
        (["--picture", "life.txt"], "no name of a picture"),
    ],
)
def test_what_cannot_be_is_found_before_the_first_episode(
    arguments: list[str], named: str, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unknown goals and arguments of the environment, and what is no picture."""
    if "--picture" in arguments:
        pytest.importorskip("matplotlib")
    assert main([str(policy), *arguments]) == ExitCode.USAGE
    found = capsys.readouterr()
    assert named in found.err and found.out == ""


def test_a_policy_that_does_not_fit_is_refused(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too few parameters, no word of the run, a model without environment, or a real plant."""
    whole = read(policy)
    for about, params, named in (
        (whole.about, whole.params[1:], "has"),
        ({"schema": 2}, whole.params, "does not describe its run"),
        ({**whole.about, "task": {"kind": "supervised"}}, whole.params, "is of a supervised task"),
        ({**whole.about, "overrides": {"device": {}}}, whole.params, "is of a real plant"),
    ):
        (tmp_path / "p.npz").write_bytes(packed(PolicyFile(params, whole.initial, about)))
        assert main([str(tmp_path / "p.npz")]) == ExitCode.USAGE
        assert named in capsys.readouterr().err


PLANT = "environment = 'tests.edge_fed.plants:Cart'\n"
SAFE = "shield = 'tests.agent.test_plant_learner:limit'\n"


@pytest.mark.parametrize(
    ("device", "arguments", "named"),
    [
        (PLANT, ["--learn"], "it has no shield: name one in"),
        (PLANT + SAFE, AWAY, "a real plant changes by itself"),
        (PLANT + "pace = 1", [], "line 2: pace: unknown key"),
    ],
)
def test_a_life_on_a_plant_refuses_by_name_what_cannot_be(
    device: str, arguments: list[str], named: str, policy: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Before anything moves: untried policies without a shield, simulated changes, a wrong file."""
    (tmp_path / "device.toml").write_text(device)
    with pytest.raises(SystemExit) as caught:
        main([str(policy), "--device", str(tmp_path / "device.toml"), *arguments])
    said = capsys.readouterr().err
    assert caught.value.code == ExitCode.USAGE and named in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("device", "arguments", "budget"),
    [(PLANT, [], 0), (PLANT, ["--budget", "50", "--learn"], 50), (PLANT + SAFE, ["--learn"], None)],
)
def test_without_a_shield_only_a_budget_lets_new_policies_act(
    device: str, arguments: list[str], budget: int | None, policy: Path, tmp_path: Path
) -> None:
    """Said in a flag, or in the shield's name; else a life acts as it did when it began."""
    (tmp_path / "device.toml").write_text(device)
    options = parser().parse_args([str(policy), "--device", str(tmp_path / "device.toml"), *arguments])
    plant = live_flags.plant_of(parser(), options)
    assert plant is not None and options.budget == budget


@pytest.mark.parametrize(
    ("environment", "shield", "code", "named"),
    [
        ("tests.edge_fed.plants:Missing", "", ExitCode.USAGE, "has no 'Missing'"),
        ("tests.edge_fed.plants:Cart", "tests.agent.test_plant_learner:Missing", ExitCode.USAGE, "'Missing'"),
        ("tests.edge_fed.gym.toy_envs:Corridor", "", ExitCode.REFUSED, "the plant has Spaces"),
    ],
)
def test_a_plant_that_cannot_be_lived_on_is_one_line(
    environment: str, shield: str, code: ExitCode, named: str, policy: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """It is not there, its shield is not, or it has other spaces: nothing is told, nothing played."""
    pytest.importorskip("gymnasium")
    text = f"environment = '{environment}'\n" + (f"shield = '{shield}'\n" if shield else "")
    (tmp_path / "device.toml").write_text(text)
    arguments = ["--device", str(tmp_path / "device.toml"), "--state", str(tmp_path / "life")]
    assert main([str(policy), *arguments]) == code
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith("error: ") and named in found.err


@pytest.mark.parametrize("name", ["step_size", "m_adapt", "goal"])
@pytest.mark.parametrize("value", ["missing", None, "text", float("nan"), float("inf"), -1, 10**30])
def test_a_policy_with_a_wrong_figure_is_one_line(
    name: str, value: Any, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Step size, trajectories or goal that cannot be: file and figure are named, nothing is played."""
    whole = read(policy)
    about = {key: old for key, old in whole.about.items() if key != name}
    about |= {} if value == "missing" else {name: value}
    (tmp_path / "p.npz").write_bytes(packed(PolicyFile(whole.params, whole.initial, about)))
    assert main([str(tmp_path / "p.npz"), "--episodes", "10"]) == ExitCode.USAGE
    found = capsys.readouterr()
    assert found.out == "" and found.err.startswith(f"error: {tmp_path / 'p.npz'} does not describe its run")
    assert name in found.err and "--save" in found.err


def state(**other: Any) -> dict[str, Any]:
    """A change of the kept state."""
    return {"state": other}


REFERENCE = {"mean": 1.0, "sd": 1.0, "episodes": 60, "allowance": 0.5, "threshold": 9.0}


@pytest.mark.parametrize(
    "change",
    [
        [],
        {"of": []},
        {"of": None},
        {"state": []},
        state(episode=-5),
        state(episode=10**30),
        state(spent=-1_000_000_000),
        state(sample=[float("nan")]),
        state(reference={**REFERENCE, "sd": 0.0}),
        state(reference={**REFERENCE, "mean": float("inf")}),
        state(cusum={"value": -1.0}),
    ],
)
def test_a_damaged_state_is_one_line(
    change: Any, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A life that is none, counts below zero, figures that are not finite: named, and the file stays."""
    lived(capsys, str(policy), "--episodes", "20", "--state", str(tmp_path))
    path = tmp_path / "live-7.npz"
    found = read(path)
    life = found.about["life"]
    if isinstance(change, dict) and isinstance(change.get("state"), dict):
        change = {"state": {**life["state"], **change["state"]}}
    damaged = {**life, **change} if isinstance(change, dict) else change
    path.write_bytes(packed(PolicyFile(found.params, found.initial, {**found.about, "life": damaged})))
    before = path.read_bytes()
    assert main([str(policy), "--episodes", "40", "--state", str(tmp_path)]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"error: the state in {path} is damaged: Expected")
    assert path.read_bytes() == before


def test_a_journal_that_no_life_wrote_is_one_line(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nested without end, or a folder: named, with the usage code; bytes that are no text are a torn line."""
    arguments = [str(policy), "--episodes", "20", "--state", str(tmp_path)]
    lived(capsys, *arguments)
    path = tmp_path / "live-7.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b"[" * 50_000 + b"\n")
    assert main(arguments) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith(f"error: the journal {path} cannot be read: ")
    path.write_bytes(whole + b"\xff\xfe")
    lived(capsys, *arguments)
    assert path.read_bytes().startswith(whole)
    path.unlink()
    path.mkdir()
    assert main(arguments) == ExitCode.USAGE
    assert f"error: the journal {path} cannot be read: " in capsys.readouterr().err


def test_a_picture_without_its_folder_is_refused_before_the_life(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is played, and no folder is made."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "gone" / "life.png"
    assert main([str(policy), "--episodes", "10", "--picture", str(path)]) == ExitCode.USAGE
    found = capsys.readouterr()
    assert found.out == "" and f"the folder {path.parent} is not there" in found.err
    assert not path.parent.exists()
