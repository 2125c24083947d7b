"""`README.md` in this folder says which test proves which row of the two lists; here it is kept true."""

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent
LAST = {"wire": 50, "complaints": 72}
PRIORITY_0 = {
    *(1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 18, 19, 20, 21, 22, 23, 24, 25, 29, 30, 31, 32, 33, 34, 35, 36, 38),
    *(46, 48, 49, 53, 54, 55, 58, 59, 66, 67, 68, 69, 70),
}
NEEDED = {"wire": set(range(1, 51)), "complaints": PRIORITY_0}
REASONS = ("open", "cannot apply", "measured")
TAG = re.compile(r"\[(wire|complaints)\b([^\]]*)\]")
NUMBERS = re.compile(r" \d+(, \d+)*")
TEST = re.compile(r"`([\w/]+\.py::test_\w+)`")

Rows = dict[str, set[int]]


class Page(NamedTuple):
    """What the page says of one row: the tests that it names, and the words beside them."""

    tests: list[str]
    words: str


def tags(text: str) -> tuple[Rows, list[str]]:
    """The rows that a docstring names, and its tags that are none."""
    found: Rows = defaultdict(set)
    wrong = []
    for tag in TAG.finditer(text):
        kind, numbers = tag.groups()
        rows = {int(number) for number in re.findall(r"\d+", numbers)}
        if not NUMBERS.fullmatch(numbers) or not all(1 <= row <= LAST[kind] for row in rows):
            wrong.append(tag.group())
        found[kind] |= rows
    return found, wrong


def docstrings(text: str) -> dict[str, str]:
    """Name -> docstring of every test of a file that pytest collects."""
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def collected() -> dict[str, str]:
    """``path::name`` -> docstring, of all files."""
    return {
        f"{path.relative_to(ROOT).as_posix()}::{name}": docstring
        for path in sorted(ROOT.rglob("test_*.py"))
        for name, docstring in docstrings(path.read_text()).items()
    }


def page(text: str) -> dict[str, dict[int, Page]]:
    """List -> row -> what its line in the page says."""
    found: dict[str, dict[int, Page]] = {kind: {} for kind in LAST}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        kind = section.partition("\n")[0].lower()
        for number, cell in re.findall(r"^\| (\d+) \| [^|]+ \| (.*) \|$", section, re.MULTILINE):
            assert int(number) not in found[kind], f"{kind} {number} has two lines"
            words = TEST.sub("", cell).replace("<br>", " ").strip()
            found[kind][int(number)] = Page(TEST.findall(cell), words)
    return found


DOCSTRINGS = collected()
PAGE = page((ROOT / "README.md").read_text())


def test_numbers_in_docstrings_are_rows() -> None:
    """Of one of the two lists, written as the page says."""
    wrong = {name: found for name, text in DOCSTRINGS.items() if (found := tags(text)[1])}
    assert wrong == {}


def test_every_row_that_needs_one_has_a_test_or_a_reason() -> None:
    """All of wire, and of the complaints those of priority 0."""
    carried: Rows = defaultdict(set)
    for text in DOCSTRINGS.values():
        for kind, rows in tags(text)[0].items():
            carried[kind] |= rows
    for kind, rows in NEEDED.items():
        reasons = {row for row, line in PAGE[kind].items() if line.words.startswith(REASONS)}
        assert rows - carried[kind] - reasons == set(), kind


def test_the_page_has_a_line_for_every_row() -> None:
    """Also for those of lower priority: tests, or why there are none."""
    for kind, last in LAST.items():
        assert sorted(PAGE[kind]) == list(range(1, last + 1))
        for row, line in PAGE[kind].items():
            assert line.tests or line.words.startswith(REASONS), f"{kind} {row}"


def test_every_test_that_the_page_names_carries_its_row() -> None:
    """It exists, and says so itself."""
    for kind, lines in PAGE.items():
        for row, line in lines.items():
            for name in line.tests:
                assert name in DOCSTRINGS, f"{kind} {row}: there is no {name}"
                assert row in tags(DOCSTRINGS[name])[0][kind], f"{name} does not carry [{kind} {row}]"


def test_the_checks_can_fail() -> None:
    """A number beyond the list, a tag that is cut short, a test within a text."""
    assert tags("[wire 51] [complaints 18 20] [wire] [complaints 72]")[1] == [
        "[wire 51]",
        "[complaints 18 20]",
        "[wire]",
    ]
    assert docstrings('def test_a():\n    """[wire 1] x."""\n\ndef helper():\n    """[wire 2] x."""\n') == {
        "test_a": "[wire 1] x."
    }
    assert page("## Wire\n\n| 3 | what | `a.py::test_b`<br>as events |\n")["wire"] == {
        3: Page(["a.py::test_b"], "as events")
    }
