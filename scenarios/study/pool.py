"""Runs the cells of a study in parallel processes; what is done is kept at once, and never done again."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import msgspec

from edge_fed.errors import EdgeFedError
from edge_fed.user_code import return_to_start
from scenarios.study.cell import Cell, run_cell
from scenarios.study.plan import Arm, Study
from scenarios.study.results import Results
from scenarios.study.store import Store

PATIENCE_S = 5.0  # without a finished cell; then a line says what runs
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""glibc gives large arrays back to the kernel and asks for fresh pages with every batch: with 200
trajectories in a batch a third of a cell's time (35.6 s became 23.5 s), with 10 a twelfth. Read when a
process starts; other C libraries ignore it. A value that the user set stands."""

Report = Callable[[float, str], None]
"""(fraction of the work that is done, what was done last)."""


def run_study(
    study: Study,
    folder: Path,
    jobs: int,
    report: Report,
    seeds: Sequence[int] | None = None,
    preregistration: str | None = None,
) -> Results:
    """Runs what is missing, then writes and returns the table.

    Args:
        study: What to run.
        folder: Of its results; made if it is not there.
        jobs: Processes at a time.
        report: Told after each cell.
        seeds: Instead of the study's.
        preregistration: SHA-256 of the file that this run keeps to; goes into every cell.

    Raises:
        ConfigError: A cell of another configuration lies in the folder, or one that kept to no such file.
        EdgeFedError: A cell failed; what was done is kept.
    """
    return_to_start()  # the checks have called the user's code; and a process begins where this one is
    store = Store(study, folder)
    wanted = [(arm, seed) for arm in study.arms for seed in (study.seeds if seeds is None else seeds)]
    kept = [(arm, seed, store.load(arm, seed, preregistration)) for arm, seed in wanted]
    done = {(arm.name, seed): cell for arm, seed, cell in kept if cell}
    total = sum(_cost(arm) for arm, _ in wanted)
    spent = sum(_cost(arm) for arm, _, cell in kept if cell)
    report(spent / total, f"{len(done)} of {len(wanted)} cells were there")

    def waiting(running: int) -> None:
        report(spent / total, f"{running} cells are running")

    for arm, seed, cell in _run(study, [(arm, seed) for arm, seed, cell in kept if not cell], jobs, waiting):
        done[arm.name, seed] = msgspec.structs.replace(cell, preregistration=preregistration)
        store.save(arm, seed, done[arm.name, seed])
        spent += _cost(arm)
        report(spent / total, f"{arm.name}, seed {seed}")
    return store.write_table({(arm.name, seed): done[arm.name, seed] for arm, seed in wanted})


def _cost(arm: Arm) -> float:
    """Of a cell, about: trajectories times steps; what is done once counts as a hundred local steps."""
    algorithm, environment = arm.scenario.algorithm, arm.scenario.environment
    batches = algorithm.inner_batch + algorithm.outer_batch + 15  # a call costs as much as 15 trajectories
    if algorithm.variant not in ("first_order", "sg_mrl"):
        batches += algorithm.hessian_batch
    return (100 + algorithm.rounds * algorithm.local_steps) * batches * (environment.horizon + 1)


def _run(
    study: Study, cells: Sequence[tuple[Arm, int]], jobs: int, waiting: Callable[[int], None]
) -> Iterator[tuple[Arm, int, Cell]]:
    """Every cell as it ends. Long ones start first, so that no process is left with one at the end."""
    queue = sorted(cells, key=lambda key: -_cost(key[0]))
    if not queue:
        return
    for variable, value in KEEP_MEMORY.items():
        os.environ.setdefault(variable, value)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(queue)), mp_context=context, initializer=_worker)
    try:
        running: dict[Future[Cell], tuple[Arm, int]] = {}
        while queue or running:
            while queue and len(running) < jobs:
                arm, seed = queue.pop(0)
                running[_submit(pool, study, arm, seed)] = arm, seed
            ended = wait(running, timeout=PATIENCE_S, return_when=FIRST_COMPLETED).done
            if not ended:
                waiting(len(running))
            for future in ended:
                arm, seed = running.pop(future)
                yield arm, seed, _result(future, arm, seed)
    finally:
        _stop(pool)


def _submit(pool: ProcessPoolExecutor, study: Study, arm: Arm, seed: int) -> "Future[Cell]":
    try:
        return pool.submit(run_cell, study, arm, seed)
    except BrokenProcessPool as error:
        raise _failed(arm, seed, error) from None


def _result(future: "Future[Cell]", arm: Arm, seed: int) -> Cell:
    try:
        return future.result()
    except EdgeFedError as error:
        raise EdgeFedError(f"arm {arm.name}, seed {seed}: {error}") from None
    except Exception as error:
        raise _failed(arm, seed, error) from error


def _failed(arm: Arm, seed: int, error: Exception) -> EdgeFedError:
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, BrokenProcessPool | MemoryError):
        why = "its process died (out of memory, or killed); run again to go on"
    return EdgeFedError(f"arm {arm.name}, seed {seed}: {why}")


def _stop(pool: ProcessPoolExecutor) -> None:
    """Ends the processes at once: their unfinished cells are nobody's any more."""
    processes = list((pool._processes or {}).values())
    for process in processes:
        with contextlib.suppress(OSError):
            process.terminate()
    pool.shutdown(wait=True, cancel_futures=True)
    for process in processes:
        process.join()


def _worker() -> None:
    """Ctrl-C is the parent's to handle; a parent that died takes the process along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
