"""Files that a program finds again after it was killed: states of agents, and the run folder of a server."""

import functools

import numpy as np

from agent.state_store import StateStore
from edge_fed.federated.record import Contribution, RoundRecord
from edge_fed.params import params_sha256
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from server.events import Commit
from server.ledger import Book, Last
from server.recording import Recorder
from server.recovery import recover
from tests.fuzz.folders import folder
from tests.fuzz.memory import bounded
from tests.server.fleet import config

INITIAL = np.zeros(4)
RUN_ID = b"fuzzed-run-fuzz!"
ROUNDS = 2
REPLACED = (
    "checkpoints/round-000002.json",
    "checkpoints/round-000002.npz",
    "metrics.jsonl",
    "events.jsonl",
    "evaluations.jsonl",
    "summary.json",
    "run.json",
    "config.json",
    "checkpoints/latest",
)


def state(data: bytes) -> None:
    """An agent's state is float64 arrays that the file really holds, or missing; never an error."""
    with folder() as here:
        (here / "state-000003.npz").write_bytes(data)
        found = bounded(len(data), lambda: StateStore(here, RUN_ID, 4).get(3))
        assert StateStore(here, RUN_ID, 4).tags() == (frozenset() if found is None else {3})
    for name, array in (found or {}).items():
        assert isinstance(name, str) and type(array) is np.ndarray and array.dtype == np.float64
    assert sum(array.nbytes for array in (found or {}).values()) <= len(data)


def checkpoint(data: bytes) -> None:
    """A run folder of which one file holds anything else: an earlier round, or one documented error."""
    replaced = REPLACED[data[0] % len(REPLACED)] if data else REPLACED[0]
    with folder() as here:
        for name, content in run_files().items():
            path = here / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data[1:] if name == replaced else content)
        try:
            found = recover(RunFolder.open(here), INITIAL)
        except ProgramError as error:
            assert str(error)
            return
        committed = found.ledger.committed
        assert committed in range(-1, ROUNDS + 1), "only what was committed"
        assert params_sha256(found.ledger.params) == digest(max(committed, 0)), "to the bit"
        assert committed == ROUNDS or replaced.startswith("checkpoints/round")
        assert recover(RunFolder.open(here), INITIAL).ledger.committed == committed, "mending is idempotent"


def digest(round_: int) -> str:
    """The hash of a round's parameters."""
    return params_sha256(np.full(4, float(round_)))


@functools.cache
def run_files() -> dict[str, bytes]:
    """The files of a run with two committed rounds, as bytes."""
    with folder() as here:
        made = RunFolder(here / "run", RUN_ID, config())  # one id, so that inputs mean the same everywhere
        made.checkpoints.mkdir(parents=True)
        made._write_identity()
        recorder = Recorder(made, lambda: None)
        for round_ in range(ROUNDS + 1):
            if round_:
                fields = {"round": round_, "eligible": (0, 1, 2), "cohort": (0, 1)}
                recorder.journal("round_opened", fields, 1.0)
            recorder.commit(commit(round_), 100, 200)
        recorder.evaluation({"kind": "evaluation", "round": 0, "trajectories": 3})
        recorder.summary({"outcome": "stopped"})
        recorder.close()
        paths = [path for path in made.path.rglob("*") if path.is_file()]
        return {str(path.relative_to(made.path)): path.read_bytes() for path in sorted(paths)}


def commit(round_: int) -> Commit:
    """A round to which agent 0 contributed."""
    params = np.full(4, float(round_))
    record = RoundRecord(
        round=round_,
        eligible=(0, 1, 2),
        cohort=(0, 1),
        contributors=(Contribution(0, 77, 1.0, 10),),
        params_sha256=params_sha256(params),
        missing={},
    )
    book = Book(last={0: Last(round_, 77, "folded")}, last_counted={0: round_})
    return Commit(round_, params, book, record if round_ else None, {"norm": 0.5}, 0.25)


def replaced_by(name: str, content: bytes) -> bytes:
    """The input that puts ``content`` in the place of a file; for the corpus."""
    return bytes([REPLACED.index(name)]) + content
