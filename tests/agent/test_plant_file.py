"""device.toml: what it may say, and what is wrong by name and line."""

from pathlib import Path

import pytest

from agent.command_line import main
from agent.plant_file import PlantFile, read_plant_file
from edge_fed.config import Device
from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ExitCode


def written(tmp_path: Path, text: str) -> PlantFile:
    """Read from a file of this text."""
    (tmp_path / "device.toml").write_text(text)
    return read_plant_file(tmp_path / "device.toml")


def test_a_plant_needs_a_name_alone(tmp_path: Path) -> None:
    """Everything else has a default: no pace of ours, resets, no budget, no shield."""
    found = written(tmp_path, 'environment = "plant:make"')
    assert found == PlantFile(environment="plant:make") and found.facts() == Device()


def test_the_server_is_told_facts_and_no_names(tmp_path: Path) -> None:
    """What a record must say of it; neither its files nor its arguments."""
    found = written(
        tmp_path,
        'environment = "plant:make"\nenv_args = { port = "ttyUSB0" }\npace_s = 1\nreset = "never"\n'
        'daily_trajectories = 200\nshield = "plant:limit"',
    )
    assert found.env_args == {"port": "ttyUSB0"} and found.shield == "plant:limit"
    assert found.facts() == Device(pace_s=1.0, reset="never", daily_trajectories=200, shielded=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "environment: is missing"),
        ('environment = "a:b"\npace = 1', "line 2: pace: unknown key .did you mean 'pace_s'"),
        ('environment = "a:b"\npace_s = -1', "line 2: pace_s: is -1"),
        ('environment = "a:b"\nreset = "sometimes"', "line 2: reset: is 'sometimes', expected one of"),
        ('environment = "a:b"\ndaily_trajectories = 0', "line 2: daily_trajectories: is 0"),
        ('environment = "a:b"\nshield = "limit"', "line 2: shield: is 'limit', no module:function"),
        ("environment = ", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    """With its line, and the name that was probably meant."""
    with pytest.raises(ConfigError, match=why):
        written(tmp_path, text)


def test_a_wrong_file_is_a_usage_error_of_the_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything connects, let alone moves."""
    (tmp_path / "device.toml").write_text("pace_s = 1")
    for name, why in (("device.toml", "environment: is missing"), ("devise.toml", "did you mean")):
        with pytest.raises(SystemExit) as found:
            main(["--goal", "3", "--device", str(tmp_path / name)])
        assert found.value.code == ExitCode.USAGE
        assert why in capsys.readouterr().err
