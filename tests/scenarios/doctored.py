"""Whole run folders, to be doctored: copies of one run, and changes of its files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from server.checkpoint import seal, unseal

Rows = list[dict[str, Any]]


def copied(files: dict[str, bytes], to: Path) -> Path:
    """The files of a run folder, written elsewhere."""
    for name, content in files.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(content)
    return to


def content(run: Path) -> dict[str, bytes]:
    """Every file of a run folder, by its path in it."""
    return {str(file.relative_to(run)): file.read_bytes() for file in run.rglob("*") if file.is_file()}


def edit_lines(file: Path, change: Callable[[Rows], Rows | None]) -> None:
    """Changes a journal in place, or replaces its rows."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    changed = change(rows)
    rows = rows if changed is None else changed
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def edit_summary(run: Path, **changes: Any) -> None:
    """Other values in ``summary.json``."""
    file = run / "summary.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def edit_sidecar(run: Path, round_: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Another sidecar, sealed again: its hash is right."""
    file = run / "checkpoints" / f"round-{round_:06d}.json"
    found = json.loads(unseal(file.read_bytes()))
    change(found)
    file.write_bytes(seal(json.dumps(found, separators=(",", ":")).encode()))
