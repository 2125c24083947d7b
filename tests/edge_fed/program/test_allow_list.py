"""The allow-list as text: what it grants, and which line is wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.program.allow_list import KEY_LENGTH, Z85, check_key, parse_agents, parse_allow_list
from edge_fed.program.exit_codes import ExitCode, ProgramError

A, B, C = ("0" * (KEY_LENGTH - 1) + letter for letter in "abc")


def test_rights():
    """Ids for both roles, onboard for any goal but never training, comments and empty lines anywhere."""
    text = f"# head\n\n{A} 0,3-5  # one device\n  {B}\tonboard #x\n{C} 7 onboard 9\n#{A} 8\n"
    allowed = parse_allow_list(text, "allowed.txt")
    assert len(allowed) == 3
    for agent in range(10):
        assert allowed.may(A, agent, "train") == allowed.may(A, agent, "onboard") == (agent in (0, 3, 4, 5))
        assert allowed.may(B, agent, "onboard") and not allowed.may(B, agent, "train")
        assert allowed.may(C, agent, "onboard") and allowed.may(C, agent, "train") == (agent in (7, 9))
    assert not allowed.may("", 0, "train") and allowed.rights("0" * KEY_LENGTH) is None
    assert str(allowed.rights(A)) == "agents 0, 3, 4, 5"
    assert str(allowed.rights(B)) == "onboarding any goal"


@pytest.mark.parametrize(
    ("text", "extends"),
    [
        (f"{C} 1\n{B} onboard 4\n# moved\n{A} 0-3\n", True),
        (f"{A} 0-2\n{B} onboard\n", True),
        (f"{A} 0-2\n{C} onboard\n", False),
        (f"{A} 0,2\n{B} onboard\n", False),
        (f"{A} 0-2\n{B} 1\n", False),
        ("", False),
    ],
)
def test_a_list_that_only_adds(text, extends):
    """No key is gone, and none has lost an agent or the word onboard."""
    earlier = parse_allow_list(f"{A} 0-2\n{B} onboard\n", "allowed.txt")
    assert parse_allow_list(text, "allowed.txt").extends(earlier) is extends


def test_an_empty_list_lets_nobody_in():
    """Not everybody."""
    assert not parse_allow_list("# nobody yet\n", "allowed.txt").may(A, 0, "onboard")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (A, "who is missing"),
        (f"{A}  # only a comment", "who is missing"),
        ("short 0", "has 5 characters; a key has 40"),
        (A[:-1] + "~ 0", "character '~', which no key has"),
        ("%" * KEY_LENGTH + " 0", "out of range"),
        (f"{A} zero", "'zero' is neither an agent id nor a range nor the word onboard"),
        (f"{A} 5-3", "'5-3' is no range"),
        (f"{A} 0-99999999", "is no range"),
        (f"{A} 1,,2", "'' is neither"),
        (f"{A} -1", "neither"),
        (f"{A} ²", "neither"),
        (f"{B} 2", "listed already in line 1"),
    ],
)
def test_errors_name_the_line(line, words):
    """And what is wrong with it; no line is skipped."""
    with pytest.raises(ProgramError) as wrong:
        parse_allow_list(f"{B} 1\n\n# c\n{line}\n", "keys/allowed.txt")
    assert wrong.value.code is ExitCode.AUTHENTICATION
    assert wrong.value.message.startswith("keys/allowed.txt, line 4: ") and words in wrong.value.message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    """Nothing else than a list or an error that a person can mend."""
    with contextlib.suppress(ProgramError):
        assert not parse_allow_list(text, "x").may("", 0, "train")


@given(st.binary(min_size=32, max_size=32))
def test_every_key_is_a_key(data):
    """All that libzmq can make passes."""
    number = [int.from_bytes(data[at : at + 4], "big") for at in range(0, 32, 4)]
    text = "".join(Z85[value // 85**power % 85] for value in number for power in range(4, -1, -1))
    assert check_key(text) == text


def test_agents():
    """Lists and ranges."""
    assert parse_agents("0") == {0} and parse_agents("2-4,7") == {2, 3, 4, 7}
