"""Nothing is left behind: no process, no socket file, no lock, no half-written file."""

from collections.abc import Iterator
from pathlib import Path

from edge_fed.program.exit_codes import ProgramError
from scenarios.campaign.evidence import Evidence


def no_process(evidence: Evidence) -> Iterator[str]:
    """No program of the run is alive: they have its folder in their command line."""
    here = str(evidence.folder.path).encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended meanwhile
            continue
        if any(word == here or word.startswith(here + b"/") for word in words):
            yield f"process {process.name} is still there: {b' '.join(words).decode(errors='replace')[:200]}"


def no_socket_file(evidence: Evidence) -> Iterator[str]:
    """The socket files of all servers of the run are gone, with their private folder."""
    for address in sorted({row["address"] for row in evidence.events if row["event"] == "started"}):
        scheme, _, path = address.partition("://")
        if scheme == "ipc" and (Path(path).exists() or Path(path).parent.exists()):
            yield f"{path} is still there"


def no_lock(evidence: Evidence) -> Iterator[str]:
    """The run folder can be locked: no server holds it."""
    try:
        with evidence.folder.locked():
            pass
    except ProgramError as error:
        yield str(error)


def no_parts(evidence: Evidence) -> Iterator[str]:
    """Nothing that was written aside is left."""
    for path in sorted(evidence.folder.path.rglob(".*.part")):
        yield f"{path.relative_to(evidence.folder.path)} was never finished"
