"""The commands as a person types them: what they print where, and their exit codes."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.command_line import main
from scenarios.console import main as console
from tests.scenarios.tiny import HEAD, ONBOARDING


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The tiny scenario as a file."""
    (tmp_path / "tiny.toml").write_text(HEAD + ONBOARDING)
    return str(tmp_path / "tiny.toml")


def test_run_prints_exactly_one_object(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json nothing else is on stdout; progress goes to stderr."""
    assert main(["run", file, "--runtime", "plain", "--json", "--seed", "3"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["success"], found["scenario"], found["runtime"], found["rounds"]) == (
        True,
        "tiny",
        "plain",
        6,
    )
    assert len(found["metrics"]["onboarding"]) == 5
    assert "round 6/6" in captured.err


def test_the_seed_changes_the_run(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--seed 3 is --set seed=3 and not --seed 4."""
    hashes = []
    for flags in (["--seed", "3"], ["--set", "seed=3"], ["--seed", "4"]):
        main(["run", file, "--runtime", "plain", "--json", *flags])
        hashes.append(json.loads(capsys.readouterr().out)["params_sha256"])
    assert hashes[0] == hashes[1] != hashes[2]


def test_an_unmet_expectation_is_exit_code_1(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table says which one."""
    Path(file).write_text(HEAD + "\n[[expect]]\nmetric = 'rounds'\ncomparison = '>'\nvalue = 6\n")
    assert main(["run", file, "--runtime", "plain"]) == 1
    assert "UNMET" in capsys.readouterr().out


BAD = [
    (["run", "few-shto"], 2, ["few-shto: no such file", "did you mean 'few-shot'?"]),
    (["chek", "few-shot"], 2, ["unknown command 'chek'", "did you mean 'check'?"]),
    (
        ["run", "few-shot", "--set", "algorithm.round=3"],
        2,
        ["algorithm.round: unknown key", "'rounds'", "--set"],
    ),
    (["run", "few-shot", "--set", "environment.family=navigaton"], 2, ["did you mean 'navigation'?"]),
    (
        ["run", "few-shot", "--runtime", "plain", "--transport", "tcp"],
        2,
        ["does not belong to --runtime plain"],
    ),
    (["check", "few-shot", "--seed", "-1"], 2, ["seed: is -1"]),
    (["verify", "nowhere"], 2, ["nowhere is no run folder"]),
]


@pytest.mark.parametrize(("arguments", "code", "parts"), BAD)
def test_a_mistake_is_a_short_message_without_a_trace(
    arguments: list[str], code: int, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Cause, place and next step on stderr, nothing on stdout, exit code 2."""
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    for part in parts:
        assert part in captured.err


@pytest.mark.parametrize("arguments", [["run", "few-shto"], ["check", "few-shto"], ["verify", "nowhere"]])
def test_a_mistake_with_json_is_an_object_too(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs read the same error from stdout."""
    assert main([*arguments, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["success"] is False
    assert found["error"]["type"] == "usage"
    assert found["error"]["message"]


def test_a_run_folder_in_use_or_full_is_not_overwritten(file: str, tmp_path: Path) -> None:
    """Only --overwrite replaces an earlier run; a folder that is no run is never removed."""
    run = ["run", file, "--runtime", "plain", "--json", "--run-dir", str(tmp_path / "run")]
    assert main(run) == 0
    assert main(run) == 2
    assert main([*run, "--overwrite"]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert main([*run[:-1], str(tmp_path / "mine"), "--overwrite"]) == 2
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_verify_says_equal_and_names_an_altered_round(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 for equal bits, 1 and the round for an altered record."""
    main(["run", file, "--runtime", "plain", "--json", "--run-dir", str(tmp_path / "run")])
    assert main(["verify", str(tmp_path / "run")]) == 0
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"cohort": [0, 1, 2, 3]', '"cohort": [0, 1, 2]', 1))
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "run"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["round"]) == ("different", 1)


def test_verify_misses_rounds_that_have_a_checkpoint_but_no_line(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record that lost its end is not equal; one line may be missing, a crash before it leaves that."""
    main(["run", file, "--runtime", "inproc", "--json", "--run-dir", str(tmp_path / "run")])
    metrics, evaluations = tmp_path / "run" / "metrics.jsonl", tmp_path / "run" / "evaluations.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    evaluations.write_text(evaluations.read_text().splitlines(keepends=True)[0])  # of round 0
    for name in ("summary.json", "events.jsonl"):  # a killed server leaves no end
        (tmp_path / "run" / name).unlink()
    for kept, code in ((5, 0), (4, 1), (0, 1)):
        metrics.write_text("".join(lines[:kept]))
        assert main(["verify", str(tmp_path / "run")]) == code
    assert "round 6 has a checkpoint, but metrics.jsonl ends with round 0" in capsys.readouterr().out


def test_a_picture_that_fails_does_not_cost_the_result(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is shown and its object is whole; the exit code says that something is missing."""
    (tmp_path / "docs").write_text("")
    picture = ["--picture", str(tmp_path / "docs" / "x.png")]
    assert main(["run", file, "--runtime", "plain", "--json", *picture]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rounds"] == 6
    assert "cannot write the picture" in captured.err


def test_a_full_disk_is_no_bug(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cause and next step, no trace."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/x/metrics.jsonl")

    monkeypatch.setattr("scenarios.launch.make_folder", full)
    assert main(["run", file, "--runtime", "inproc", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["type"] == "failed"
    assert "runs/x/metrics.jsonl cannot be written: No space left" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("command", ["list", "run {file} --runtime plain --json"])
def test_output_that_nobody_can_take_leaves_no_trace(file: str, command: str, redirection: str) -> None:
    """Closed streams are like /dev/null; a full disk is an error with exit code 1."""
    if "full" in redirection and not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    line = f"{sys.executable} -m scenarios {command.format(file=file)} {redirection}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == (1 if "full" in redirection else 0)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_interrupt_while_modules_load_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or in a command that handles no signals itself."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.command_line.main", interrupted)
    assert console(["verify", "x"]) == 130
    assert "stopped by SIGINT" in capsys.readouterr().err


def test_check_names_the_runtimes_that_can_run_a_scenario(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scenario that kills its server is right, but not for inproc."""
    Path(file).write_text(HEAD + '\n[[timeline]]\ndo = "kill"\nwho = "server"\nat_round = 2\n')
    assert main(["check", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runtimes"] == ["plain", "processes"]
    assert "needs --runtime processes" in found["refused"]["inproc"][0]
    assert main(["check", file, "--runtime", "inproc"]) == 2


FAULT = '\n[[timeline]]\ndo = "fault"\nwho = "0"\nat_round = {}\nargs = {{ kind = "freeze", for_s = 1 }}\n'


def test_check_needs_one_line_for_what_other_runtimes_cannot_do(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two faults in a timeline run with processes only: said once, not once per fault and runtime."""
    Path(file).write_text(HEAD + FAULT.format(2) + FAULT.format(3))
    assert main(["check", file]) == 0
    right, refused = capsys.readouterr().out.splitlines()
    assert right == "tiny: right for --runtime processes"
    assert refused == (
        "tiny: not with --runtime plain or inproc: timeline.0: plain cannot fault 0 "
        "(needs --runtime processes) (and 3 more reasons)"
    )
    assert main(["check", file, "--runtime", "inproc"]) == 2
    assert len(capsys.readouterr().out.splitlines()) == 2, "if nothing is left, all of it"


def test_check_says_how_long_a_round_takes_over_slow_links(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """36 parameters: 488 bytes each way at 5470 bit/s, and 0.16 s on the way at most."""
    assert main(["check", file, "--set", 'agents.0.profile="lora"', "--set", "federation.lease_s=30"]) == 0
    assert "a round takes about 1.75 s (0.714 s down, 0.714 s up), 6 rounds about 10 s" in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize("flag", [[], ["--actions"], ["--metrics"]])
def test_list_shows_what_there_is(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The library, the actions and the metrics, as a table and as JSON."""
    assert main(["list", *flag]) == 0
    assert main(["list", *flag, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    names = {"": "few-shot", "--actions": "restart", "--metrics": "meta_objective"}
    assert names[flag[0] if flag else ""] in {next(iter(row.values())) for row in shown}


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """--help names flags and exit codes."""
    for command in ("list", "check", "run", "verify"):
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert caught.value.code == 0
        assert "exit codes: 0 ok" in capsys.readouterr().out


def test_the_installed_command_reaches_server_and_agent(capsys: pytest.CaptureFixture[str]) -> None:
    """`edge-fed server` and `edge-fed agent` are the programs of the same names."""
    for name, words in (("server", "python -m server"), ("agent", "python -m agent")):
        with pytest.raises(SystemExit):
            console([name, "--help"])
        assert words in capsys.readouterr().out
    assert console(["list", "--json"]) == 0


def test_a_picture_without_matplotlib_is_refused_before_the_run(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for a run that ends without its picture."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["run", file, "--runtime", "plain", "--picture", "x.png"]) == 2
    captured = capsys.readouterr()
    assert "edge-fed[plot]" in captured.err
    assert "round" not in captured.err
