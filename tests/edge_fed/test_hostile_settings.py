"""Settings that nobody would write on purpose: each is a fault by name, none ends in another exception."""

from pathlib import Path

import msgspec
import pytest

from edge_fed.config import RunConfig, parse_goals
from edge_fed.errors import ConfigError, Fault
from edge_fed.program.config_file import load_config
from edge_fed.program.conversion import MAX_DEPTH, too_deep
from protocol.codec import decode, encode
from protocol.limits import MAX_HEADER_DEPTH, Limits
from protocol.messages import Header, Welcome
from scenarios.script import load_scenario


def faults(path: Path, text: str, *sets: str) -> list[Fault]:
    """What is wrong with a file."""
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, sets)
    return list(caught.value.faults)


DIGITS, BRACKETS = "7" * 5000, "[" * 3000


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (f"seed = {DIGITS}", "TOML", "thousands of digits"),
        (f"seed = {BRACKETS}", "TOML", "brackets within brackets"),
        (f"seed = {'[' * 100}{']' * 100}", "seed.0.0.0", "more than 14 tables and lists"),
        (
            f"[environment]\nargs = {{ size = {'[' * 60}{']' * 60} }}",
            "environment.args.size.0",
            "more than 14",
        ),
        (f"{'a.' * 50}b = 1", "a.a.a", "more than 14"),
    ],
)
def test_a_file_without_end_is_a_fault(text: str, path: str, message: str, tmp_path: Path) -> None:
    """Digits and brackets that Python itself gives up on, and nesting that no message to an agent carries."""
    (fault,) = faults(tmp_path / "a.toml", text)
    assert fault.path.startswith(path) and message in fault.message and fault.hint


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        (f"seed={DIGITS}", "seed"),
        (f"seed={BRACKETS}", "seed"),
        (f"agents.{DIGITS}.goals=0", "agents"),
        (f"environment.args={BRACKETS[:50]}{']' * 50}", "environment.args"),
        ("algorithm.local_steps=\ud800", "--set"),
    ],
)
def test_an_override_without_end_is_a_fault(setting: str, path: str) -> None:
    """The same on the command line, where bytes may also be no text."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, [setting])
    (fault,) = caught.value.faults
    assert fault.path.startswith(path) and "--set" in fault.hint and str(fault).isprintable()


def test_what_a_file_holds_does_not_command_the_terminal(tmp_path: Path) -> None:
    """A key with an escape sequence is shown with its escape written out."""
    (fault,) = faults(tmp_path / "a.toml", '"\\u001b[2J" = 1\n')
    assert str(fault).isprintable() and "\\x1b[2J: unknown key" in str(fault)


def test_many_huge_ranges_are_as_absurd_as_one() -> None:
    """A line of a few kilobytes would else fill the memory."""
    with pytest.raises(ValueError, match="absurd range"):
        parse_goals(",".join(["0-999998"] * 1000))
    with pytest.raises(ValueError, match="absurd range"):
        parse_goals("0-" + "9" * 20)  # ended in an OverflowError
    with pytest.raises(ValueError, match="is no number of a goal"):
        parse_goals("9" * 5000)


def test_an_empty_key_has_a_place(tmp_path: Path) -> None:
    """TOML allows it; found by fuzzing: the fault named nothing at all."""
    (fault,) = faults(tmp_path / "a.toml", '"" = 1\n')
    assert fault.path == '""' and fault.message == "unknown key"


def test_the_depth_is_what_welcome_carries() -> None:
    """A configuration stands two maps deep in a header."""
    assert MAX_DEPTH == MAX_HEADER_DEPTH - 2
    tree: object = 1
    for _ in range(MAX_DEPTH):
        tree = {"a": [tree]} if isinstance(tree, list) else [tree]
    assert too_deep([[[1]]]) is None and too_deep(tree) is not None


def test_a_timeline_in_nine_million_rounds_is_checked_at_once() -> None:
    """Only rounds in which something changes are looked at. It took two minutes and gigabytes."""
    kill = 'timeline=[{ do = "kill", who = "0", at_round = 8000000, args = { point = "sent" } }]'
    scenario = load_scenario("few-shot", ["algorithm.rounds=9000000", kill])
    assert scenario.algorithm.rounds == 9_000_000
    everybody = 'timeline=[{ do = "kill", who = "0-5", at_round = 8000000 }]'
    with pytest.raises(ConfigError, match="in round 8000000 no agent is left"):
        load_scenario("few-shot", ["algorithm.rounds=9000000", everybody])


def test_settings_that_no_message_carries_are_refused_before_the_run(tmp_path: Path) -> None:
    """[complaints 48] The largest key is named with size and limit; what passes fits into WELCOME."""
    (fault,) = faults(tmp_path / "a.toml", f'description = "{"x" * 60_000}"')
    assert fault.path == "description" and "takes 60003 of 6" in fault.message and "60000 bytes" in fault.hint
    path = tmp_path / "b.toml"
    path.write_text(f'description = "{"x" * 58_000}"')
    config = msgspec.to_builtins(load_config(path))
    limits = dict.fromkeys(Limits.__struct_fields__, 1.0)
    welcome = Welcome(
        role="train", config=config, limits=limits, features=("control",), initial_sha256="a" * 64
    )
    header = Header(session=b"s" * 16, seq=2**62, run=b"r" * 16, committed=2**62)
    received = decode(encode(header, welcome)).message
    assert isinstance(received, Welcome) and msgspec.convert(received.config, RunConfig) == load_config(path)


def test_a_valid_file_stays_valid(tmp_path: Path) -> None:
    """The guards refuse nothing that is right."""
    path = tmp_path / "a.toml"
    path.write_text(
        'name = "a"\n[environment]\nfamily = "gridworld"\nargs = { size = 4 }\n[policy]\nname = "softmax"\n'
    )
    assert isinstance(load_config(path), RunConfig)
