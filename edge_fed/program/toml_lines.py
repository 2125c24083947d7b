"""Where a key stands in a TOML text: for error messages, by a search and not by a second parser.

The search reads table headers and the left sides of assignments. A key inside an inline table or a long
value is found at the line of the nearest key around it.
"""

import re

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*(\[\[?)\s*({_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"^\s*({_DOTTED})\s*=(.*)$")
_QUOTES = re.compile(r"\"\"\"|'''")


def key_lines(text: str) -> dict[str, int]:
    """Maps the dotted path of every key and table to its line, counting from 1."""
    lines: dict[str, int] = {}
    lengths: dict[str, int] = {}  # of arrays of tables
    table = ""
    inside: str | None = None  # the quotes of a multi-line string that is open
    for number, line in enumerate(text.splitlines(), start=1):
        if inside:
            inside = None if inside in line else inside
        elif header := _HEADER.match(line):
            table = _current(_parts(header[2]), lengths)
            if header[1] == "[[":
                index = lengths[table] = lengths.get(table, -1) + 1
                table = f"{table}.{index}"
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            path = ".".join(filter(None, [table, *_parts(assignment[1])]))
            lines.setdefault(path, number)
            quotes = _QUOTES.findall(assignment[2])
            inside = quotes[0] if len(quotes) == 1 else None
    return lines


def line_of(path: str, lines: dict[str, int]) -> int | None:
    """The line of a dotted path, or of the nearest key around it; None if neither is written."""
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_KEY, dotted)]


def _current(parts: list[str], lengths: dict[str, int]) -> str:
    """The path of a header, with the current index after each array of tables but the last part."""
    path = ""
    for part in parts:
        if path in lengths:
            path = f"{path}.{lengths[path]}"
        path = f"{path}.{part}" if path else part
    return path
