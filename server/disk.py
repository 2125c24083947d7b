"""Who writes to the run folder, and when: small commits at once, large ones in a thread.

A small commit costs a fraction of a millisecond, less than handing it to a thread. Large files, loads and
forced writes run in one thread, in order, so that the loop keeps answering agents.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from edge_fed.params import F8
from edge_fed.program.run_folder import RunFolder
from server.checkpoint import load_params
from server.events import Commit
from server.recording import LARGE_BYTES, Recorder

Result = TypeVar("Result")
Line = dict[str, Any]
Post = Callable[[Callable[[], None]], None]
"""Runs a function in the loop's thread."""


class Disk:
    """A recorder and its thread.

    Args:
        folder: The run folder, locked by the caller.
        die: Ends this process as SIGKILL would.
        post: Brings results back to the loop's thread.
    """

    def __init__(self, folder: RunFolder, die: Callable[[], None], post: Post) -> None:
        self.recorder = Recorder(folder, die)
        self._folder = folder
        self._post = post
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="server-disk")

    def commit(
        self,
        command: Commit,
        counted: tuple[int, int],
        done: Callable[[Line], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Writes a checkpoint; ``done`` gets its line, before this returns if it is small."""
        size = sum(array.nbytes for array in command.arrays.values())
        if size <= LARGE_BYTES and not self.recorder.power:
            done(self.recorder.commit(command, *counted))
        else:
            self._later(lambda: self.recorder.commit(command, *counted), done, failed)

    def load(self, round_: int, done: Callable[[F8 | None, str], None]) -> None:
        """Reads the parameters of an earlier round; None if they are not there, or damaged: then how."""
        self._later(
            lambda: load_params(self._folder, round_),
            lambda params: done(params, ""),
            lambda error: done(None, str(error) or repr(error)),
        )

    def sync(self, failed: Callable[[BaseException], None]) -> None:
        """Forces what was written to the disk."""
        self._later(self.recorder.sync, lambda _none: None, failed)

    def wait(self) -> None:
        """Waits until everything that was begun is written, or has failed."""
        self._thread.submit(lambda: None).result()

    def close(self) -> None:
        """Waits for the thread and closes the files."""
        self._thread.shutdown(wait=True)
        with contextlib.suppress(OSError):  # a broken disk was named before
            self.recorder.close()

    def _later(
        self,
        work: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def finished(future: Future[Result]) -> None:
            error = future.exception()
            if error is not None:
                self._post(lambda: failed(error))
            else:
                self._post(lambda: done(future.result()))

        self._thread.submit(work).add_done_callback(finished)
