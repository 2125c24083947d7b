"""Runs the cells of a study in parallel processes; what is done is kept at once, and never done again.

A study's folder: ``cells/<arm>/<seed>.json``, one file per finished cell, and from them ``<study>.csv``, the
table, and ``<study>.json``, what it was made with.
"""

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

from edge_fed.errors import ConfigError, EdgeFedError, Fault
from edge_fed.program.files import write_atomic
from edge_fed.program.fingerprint import fingerprint
from edge_fed.program.run_folder import versions
from scenarios.study.cell import Cell, run_cell
from scenarios.study.plan import Arm, Study
from scenarios.study.results import Results, as_csv

SCHEMA = 1

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
    wanted = [(arm, seed) for arm in study.arms for seed in (study.seeds if seeds is None else seeds)]
    kept = [(arm, seed, _kept(study, folder, arm, seed, preregistration)) for arm, seed in wanted]
    done = {(arm.name, seed): cell for arm, seed, cell in kept if cell}
    total = sum(_cost(arm) for arm, _ in wanted)
    spent = sum(_cost(arm) for arm, _, cell in kept if cell)
    report(spent / total, f"{len(done)} of {len(wanted)} cells were there")
    for arm, seed, cell in _run(study, [(arm, seed) for arm, seed, cell in kept if not cell], jobs):
        done[arm.name, seed] = msgspec.structs.replace(cell, preregistration=preregistration)
        _keep(_path(folder, arm, seed), done[arm.name, seed])
        spent += _cost(arm)
        report(spent / total, f"{arm.name}, seed {seed}")
    return _write(study, folder, {(arm.name, seed): done[arm.name, seed] for arm, seed in wanted})


def _cost(arm: Arm) -> float:
    """Of a cell, about: trajectories times steps; what is done once counts as a hundred local steps."""
    algorithm, environment = arm.scenario.algorithm, arm.scenario.environment
    batches = algorithm.inner_batch + algorithm.outer_batch + 15  # a call costs as much as 15 trajectories
    if algorithm.variant not in ("first_order", "sg_mrl"):
        batches += algorithm.hessian_batch
    return (100 + algorithm.rounds * algorithm.local_steps) * batches * (environment.horizon + 1)


def _run(study: Study, cells: Sequence[tuple[Arm, int]], jobs: int) -> Iterator[tuple[Arm, int, Cell]]:
    """Every cell as it ends. Long ones start first, so that no process is left with one at the end."""
    queue = sorted(cells, key=lambda key: -_cost(key[0]))
    if not queue:
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(queue)), mp_context=context, initializer=_worker)
    try:
        running: dict[Future[Cell], tuple[Arm, int]] = {}
        while queue or running:
            while queue and len(running) < jobs:
                arm, seed = queue.pop(0)
                running[pool.submit(run_cell, study, arm, seed)] = arm, seed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                arm, seed = running.pop(future)
                yield arm, seed, _result(future, arm, seed)
    finally:
        _stop(pool)


def _result(future: "Future[Cell]", arm: Arm, seed: int) -> Cell:
    try:
        return future.result()
    except BrokenProcessPool:
        message = (
            f"arm {arm.name}, seed {seed}: its process died (out of memory, or killed); run again to go on"
        )
        raise EdgeFedError(message) from None


def _stop(pool: ProcessPoolExecutor) -> None:
    """Ends the processes at once: their unfinished cells are nobody's any more."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with contextlib.suppress(OSError):
            process.terminate()
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


def _path(folder: Path, arm: Arm, seed: int) -> Path:
    return folder / "cells" / arm.name.replace("/", "--") / f"{seed}.json"


def _kept(study: Study, folder: Path, arm: Arm, seed: int, preregistration: str | None) -> Cell | None:
    """A finished cell, if it is there.

    Raises:
        ConfigError: It is of another configuration, or no cell, or kept to no such preregistration.
    """
    path = _path(folder, arm, seed)
    if not path.is_file():
        return None
    hint = f"choose another folder, or delete {path.parent.parent}"
    try:
        cell = msgspec.json.decode(path.read_bytes(), type=Cell)
    except (msgspec.DecodeError, OSError) as error:
        raise ConfigError([Fault(str(path), f"is no finished cell: {error}", hint)], study.name) from None
    if cell.config != arm.config:
        message = f"is of configuration {cell.config}, arm {arm.name} has {arm.config}"
        raise ConfigError([Fault(str(path), message, hint)], study.name)
    if preregistration is not None and cell.preregistration != preregistration:
        message = "was run without this preregistration, and nothing makes it confirmatory afterwards"
        raise ConfigError([Fault(str(path), message, hint)], study.name)
    return cell


def _keep(path: Path, cell: Cell) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, msgspec.json.encode(cell), sync=False)


def _write(study: Study, folder: Path, cells: dict[tuple[str, int], Cell]) -> Results:
    """The table, and beside it what it was made with."""
    rows = tuple(row for cell in cells.values() for row in cell.rows)
    hashes: dict[str, dict[str, str]] = {}
    for (arm, seed), cell in cells.items():
        hashes.setdefault(arm, {})[str(seed)] = cell.params_sha256
    stamps = {cell.preregistration for cell in cells.values()}
    made = {
        "schema": SCHEMA,
        "study": study.name,
        "digest": study.digest,
        "preregistration": stamps.pop() if len(stamps) == 1 else None,
        "versions": versions(),
        "fingerprint": fingerprint(),
        "params_sha256": hashes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{study.name}.csv"
    write_atomic(table, as_csv(rows).encode(), sync=False)
    write_atomic(
        folder / f"{study.name}.json", msgspec.json.format(msgspec.json.encode(made), indent=1), sync=False
    )
    return Results(str(table), rows)
