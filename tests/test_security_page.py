"""SECURITY.md names tests: they exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.findall(r"`(tests/\S+?\.py)?(?:::(test_\w+))?`", (ROOT / "SECURITY.md").read_text())


def test_every_test_that_the_page_names_exists() -> None:
    """By file, or by file and name; a name without a file is in the file before it."""
    file = ""
    found = 0
    for path, name in NAMED:
        file = path or file
        if not path and not name:
            continue
        text = (ROOT / file).read_text()
        assert not name or f"def {name}(" in text, f"{file}::{name}"
        found += 1
    assert found > 20
