"""What each of the machine's commands does: one table, one method per command. No decision is made here."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from edge_fed.program.guard import GuardedLoop
from edge_fed.program.log import Logger
from edge_fed.program.supervision import Supervisor
from server import events as e
from server.carriage import Carriage
from server.console import Console
from server.disk import Disk

SYNC_S = 1.0  # pause between two forced writes to the disk


class Effects:
    """Carries commands out, one at a time; every method runs in the loop's thread.

    Args:
        loop: Clock and timers.
        over: Set by `Exit`; once it is done, nobody hears of a round any more.
        carriage: Where messages go.
        disk: Where the run is recorded.
        logger: Where lines go.
        console: Shows progress.
        supervisor: Who hears of the run; None: nobody.
        die: Ends this process as SIGKILL would.
        happened: Called with what a command led to.
        failed: Called with an error of the disk's thread.

    Attributes:
        table: Command -> who carries it out.
    """

    def __init__(
        self,
        loop: GuardedLoop,
        over: "asyncio.Future[e.Exit]",
        *,
        carriage: Carriage,
        disk: Disk,
        logger: Logger,
        console: Console,
        supervisor: Supervisor | None,
        die: Callable[[], None],
        happened: Callable[[e.Event], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._over = over
        self._carriage = carriage
        self._disk = disk
        self._logger = logger
        self._console = console
        self._supervisor = supervisor
        self._die = die
        self._happened = happened
        self._failed = failed
        self._sync_due: asyncio.TimerHandle | None = None
        self.table: dict[type[e.Command], Callable[[Any], None]] = {
            e.Send: self._send,
            e.Journal: self._journal,
            e.Evaluation: self._evaluation,
            e.Commit: self._commit,
            e.Load: self._load,
            e.Log: self._log,
            e.Wait: self._wait,
            e.Tell: self._tell,
            e.Die: self._kill,
            e.Exit: self._exit,
        }

    def carry_out(self, command: e.Command) -> None:
        """Does what a command asks for; what that leads to is told later."""
        self.table[type(command)](command)

    def close(self) -> None:
        """Forces nothing to the disk any more."""
        if self._sync_due is not None:
            self._sync_due.cancel()

    def _send(self, command: e.Send) -> None:
        self._carriage.send(command)

    def _journal(self, command: e.Journal) -> None:
        self._disk.recorder.journal(command.event, command.fields, self._loop.time())

    def _evaluation(self, command: e.Evaluation) -> None:
        self._disk.recorder.evaluation(command.row)

    def _commit(self, command: e.Commit) -> None:
        counted = self._carriage.counted_since()
        self._disk.commit(command, counted, lambda line: self._committed(command.round, line), self._failed)

    def _committed(self, round_: int, line: dict[str, Any]) -> None:
        if self._over.done():
            return
        if line:
            self._console.round(msgspec.to_builtins(line))
        if line and self._supervisor is not None:
            self._supervisor.event("round", **msgspec.to_builtins(line))
        if self._sync_due is None:
            self._sync_due = self._loop.call_at(self._loop.time() + SYNC_S, self._sync)
        self._happened(e.Committed(round_))

    def _sync(self) -> None:
        self._sync_due = None
        self._disk.sync(self._failed)

    def _load(self, command: e.Load) -> None:
        round_ = command.round
        self._disk.load(round_, lambda params, damage: self._happened(e.Loaded(round_, params, damage)))

    def _log(self, command: e.Log) -> None:
        getattr(self._logger, command.level)(command.text, **command.fields)

    def _wait(self, command: e.Wait) -> None:
        self._console.wait(command)
        if self._supervisor is not None:
            self._supervisor.event("wait", what=command.what, missing=list(command.missing))

    def _tell(self, command: e.Tell) -> None:
        if self._supervisor is not None:
            self._supervisor.event(command.name, **msgspec.to_builtins(command.fields))

    def _kill(self, _command: e.Die) -> None:
        self._die()

    def _exit(self, command: e.Exit) -> None:
        if not self._over.done():
            self._over.set_result(command)
