"""Tables as they are read: what is written reads back equal, and what is wrong is named with its line."""

from pathlib import Path

import pytest

from edge_fed.errors import ConfigError
from scenarios.study.results import COLUMNS, Measurement, as_csv, is_table, read_results

ROWS = tuple(
    Measurement(arm, seed, "c0ffee", round_, "shared", 0, "success", 0.1 * seed)
    for arm in ("a", "b,\n1")
    for seed in (0, 1)
    for round_ in (5, 10)
)
TEXT = as_csv(ROWS[:4])
LAST = TEXT.splitlines()[-1]


def refusal(path: Path) -> str:
    """Why a file is no table."""
    with pytest.raises(ConfigError) as caught:
        read_results(path)
    assert caught.value.source == str(path)
    return str(caught.value)


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    """Floats to the bit, and a name that needs quotes; also with the line ends of Windows."""
    (path := tmp_path / "t.csv").write_text(as_csv(ROWS))
    assert read_results(path).rows == ROWS
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert read_results(path).rows == ROWS[:4]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "line 1: is no header of results"),
        (b"arm,seed\n", "line 1: is no header of results (expected arm,seed,config"),
        (TEXT[:-1].encode(), "line 5: is cut off: no end of line"),
        (TEXT[:-12].encode(), "line 5: is cut off"),
        (TEXT.rstrip("\n").rpartition("\n")[0].encode(), "line 4: is cut off"),
        (f"{TEXT}a,2,c0ffee\n".encode(), "line 6: is no measurement: 3 fields, expected 8"),
        (f"{TEXT}{LAST},more\n".encode(), "line 6: is no measurement: 9 fields, expected 8"),
        (f"{TEXT}\n".encode(), "line 6: is no measurement: 0 fields"),
        (TEXT.replace("a,1,", "a,one,", 1).encode(), "line 4: is no measurement: Expected `int`"),
        (TEXT.replace("a,1,", f"a,{2**63},", 1).encode(), "line 4: is no measurement: Expected `int` <="),
        (TEXT.replace("a,1,", "a,-1,", 1).encode(), "line 4: is no measurement: Expected `int` >= 0"),
        (TEXT.replace(",0.1", ",much", 1).encode(), "line 4: is no measurement: Expected `float`"),
        (TEXT.encode() + b"caf\xe9\n", "line 6: is no text in UTF-8 (byte 0xe9)"),
        (b"\x89PNG\r\n\x1a\n\x00", "line 1: is no text in UTF-8 (byte 0x89)"),
        (TEXT.encode() + b"a\0b\n", "line 6: holds a NUL byte"),
        (f"{TEXT}{'x' * 200_000}\n".encode(), "line 6: is no measurement: field larger than field limit"),
        (f'{TEXT}"a,1\n{LAST}\n'.encode(), "line 6: is no measurement: unexpected end of data"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(data: bytes, words: str, tmp_path: Path) -> None:
    """Whatever lies there, one clear error and no traceback."""
    (path := tmp_path / "t.csv").write_bytes(data)
    assert words in refusal(path)


@pytest.mark.parametrize("again", [LAST, LAST.replace("c0ffee", "decade"), f"{LAST[:-3]}0.7"])
def test_a_measurement_that_stands_twice_is_refused(again: str, tmp_path: Path) -> None:
    """With the same value, of another configuration, or with another value: which counts nobody could say."""
    (path := tmp_path / "t.csv").write_text(f"{TEXT}{again}\n")
    words = "line 6: measures shared/success/0 of arm 'a', seed 1, round 10 again, as line 5 does"
    assert words in refusal(path)


def test_lines_that_differ_in_any_part_of_the_key_are_not_the_same(tmp_path: Path) -> None:
    """Arm, seed, round, policy, m and outcome: each alone makes another measurement."""
    changes = {"arm": "b", "seed": 7, "round": 15, "policy": "learned", "m": 20, "outcome": "return"}
    one = ROWS[0]
    rows = (one, *(Measurement(**{f: getattr(one, f) for f in COLUMNS} | {k: v}) for k, v in changes.items()))
    (path := tmp_path / "t.csv").write_text(as_csv(rows))
    assert read_results(path).rows == rows


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    """As the system says it."""
    assert "cannot be read: Is a directory" in refusal(tmp_path)
    assert "cannot be read: No such file" in refusal(tmp_path / "none.csv")


def test_a_round_that_was_not_measured_is_answered_with_those_that_were(tmp_path: Path) -> None:
    """The newest is the default; a named one must be there."""
    (path := tmp_path / "t.csv").write_text(TEXT)
    found = read_results(path)
    assert found.values("a", "success") == found.values("a", "success", round_=10) == {0: 0, 1: 0.1}
    with pytest.raises(ConfigError, match=r"of arm 'a' was not measured at round 7 \(measured: 5, 10\)"):
        found.values("a", "success", round_=7)


def test_only_a_file_with_the_header_is_a_table(tmp_path: Path) -> None:
    """Other CSV files may lie beside tables."""
    (tmp_path / "t.csv").write_text(TEXT)
    (tmp_path / "fig8.csv").write_bytes(b"config,policy\n\xff\n")
    assert is_table(tmp_path / "t.csv") and not is_table(tmp_path / "fig8.csv")
