"""Run folders of tiny runs whose every round follows from the one before, to be killed and gone on with.

``python -m tests.server.small_runs ROOT``: for every folder below ROOT whose name says how it dies, a forked
process commits the round `DEADLY` and kills itself at that step. One program for all: it starts once.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np

from edge_fed.federated.control_variate import ServerControl
from edge_fed.federated.record import Contribution, RoundRecord
from edge_fed.params import F8, params_sha256
from edge_fed.program.run_folder import RunFolder
from server.events import Commit, CommitPoint
from server.ledger import Book, Last, Ledger
from server.recording import LARGE_BYTES, Recorder
from server.recovery import Recovered, recover
from tests.server.fleet import config

DEADLY = 3
ROUNDS = 4
GAIN = 1.0 / 3.0


class Kind(msgspec.Struct, frozen=True):
    """How a run is recorded.

    Attributes:
        keep: ``keep_checkpoints``.
        large: As if the parameters were too many for one write.
    """

    durability: str = "process"
    control: bool = False
    keep: int = 0
    large: bool = False


def begin(path: Path, kind: Kind) -> RunFolder:
    """A new folder; equal kinds make equal bytes."""
    correction = "control_variate" if kind.control else "none"
    settings = config(rounds=9, durability=kind.durability, keep_checkpoints=kind.keep, correction=correction)
    return RunFolder(RunFolder.create(settings, path).path, bytes(16), settings)


def reopen(path: Path) -> RunFolder:
    """The folder of a run that `begin` began."""
    return RunFolder(path, bytes(16), RunFolder.open(path).config)


def before(folder: RunFolder, kind: Kind) -> Recovered:
    """Where the run stands."""
    zeros = np.zeros(4)
    return recover(folder, zeros, ServerControl(zeros, 1.0, 3) if kind.control else None)


def go_on(
    folder: RunFolder,
    kind: Kind,
    ledger: Ledger,
    last: int = ROUNDS,
    *,
    die: CommitPoint | None = None,
    kill: Callable[[], None] = lambda: None,
) -> None:
    """Commits the rounds up to ``last``, each computed from the one before; dies in ``last`` if asked to."""
    recorder = Recorder(folder, kill)
    bound = 0 if kind.large else LARGE_BYTES
    params, control = ledger.params, ledger.control_value
    try:
        for round_ in range(ledger.committed + 1, last + 1):
            if round_:
                params = params * GAIN + round_
                control = None if control is None else control * GAIN - round_
                if round_ > opened(folder):
                    fields = {"round": round_, "eligible": (0, 1), "cohort": (0, 1)}
                    recorder.journal("round_opened", fields, 1.0)
            made = commit(round_, params, control)
            with mock.patch("server.recording.LARGE_BYTES", bound):
                recorder.commit(msgspec.structs.replace(made, die=die if round_ == last else None), 100, 200)
    finally:
        recorder.close()


def opened(folder: RunFolder) -> int:
    """The newest round that was opened."""
    return max((row["round"] for row in folder.rows(folder.events)), default=0)


def commit(round_: int, params: F8, control: F8 | None) -> Commit:
    """A round to which agent 0 contributed."""
    record = RoundRecord(
        round=round_,
        eligible=(0, 1),
        cohort=(0, 1),
        contributors=(Contribution(0, 77 + round_, 1.0, 10),),
        params_sha256=params_sha256(params),
        control_sha256="" if control is None else params_sha256(control),
    )
    book = Book(last={0: Last(round_, 77 + round_, "folded")}, last_counted={0: round_})
    return Commit(round_, params, book, record if round_ else None, {"norm": 0.5}, 0.25, control=control)


def content(folder: RunFolder) -> dict[str, bytes]:
    """Checkpoints and metrics, byte by byte."""
    files = [folder.metrics, *(path for path in folder.checkpoints.iterdir() if path.name != "latest")]
    return {path.name: path.read_bytes() for path in files}


def kill_self() -> None:
    """SIGKILL."""
    os.kill(os.getpid(), signal.SIGKILL)


def main(root: Path) -> None:
    """Kills a process in every folder; fails if one survives."""
    for path in sorted(root.iterdir()):
        point = path.name.split(" at ")[-1]
        child = os.fork()
        if child == 0:
            folder = reopen(path)
            kind = msgspec.json.decode((path / "kind").read_bytes(), type=Kind)
            go_on(folder, kind, before(folder, kind).ledger, DEADLY, die=point, kill=kill_self)  # type: ignore[arg-type]
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{path.name} lived on"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
