"""The server program around its state machine: how it begins, how events reach the machine, how it ends.

No decision is made here. One event at a time goes to the machine, and its commands are carried out in order
(`server.effects`).
"""

import asyncio
import contextlib
import os
import secrets
import shlex
import signal
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.guard import GuardedLoop
from edge_fed.program.log import Logger
from edge_fed.program.run_folder import RunFolder
from edge_fed.program.supervision import NoSupervisor, Supervisor
from protocol.errors import Closed
from protocol.limits import Limits
from protocol.transport import Context, ServerSocket
from server import events as e
from server.admission import Admission
from server.alarm import Alarm
from server.binding import DEFAULT_BIND, bound
from server.carriage import Carriage
from server.console import Console, Lines
from server.disk import Disk
from server.doorkeeper import Doorkeeper
from server.effects import Effects
from server.ledger import Ledger
from server.orders import order
from server.recovery import Recovered, recover
from server.state_machine import Machine
from server.summary import summarize
from server.training import released


def unwritable(error: OSError) -> str:
    """What a full or read-only disk means for the run."""
    where = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return f"the run folder cannot be written: {where}{error.strerror or error}"


def kill_self() -> None:
    """Ends this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


class ServerProgram:
    """One run's server, from its binding to its exit code.

    Args:
        config: The run's settings, already checked.
        folder: Where the run is recorded; it is locked while the server runs.
        address: What to bind; port 0: any free one.
        logger: Where lines go.
        context: Share it with the agents for ``inproc://``; None: one of its own.
        supervisor: Who started this program, if that is a program.
        holds: Rounds before which the supervisor is asked.
        serve: Stay for onboarders after the run.
        resume: Go on with what the folder holds.
        insecure: Allow an address that other machines can reach, without keys.
        doorkeeper: Knows the keys and who may connect; None: no keys, anybody who reaches the address may.
        console: Shows progress; None: log lines.
        die: What the supervisor's ``die`` does.

    Attributes:
        endpoint: The address that was bound, with the real port; empty before.
        summary: The content of ``summary.json``; empty before the end.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: RunFolder,
        address: str,
        *,
        logger: Logger,
        context: Context | None = None,
        supervisor: Supervisor | None = None,
        holds: frozenset[int] = frozenset(),
        serve: bool = False,
        resume: bool = False,
        insecure: bool = False,
        doorkeeper: Doorkeeper | None = None,
        console: Console | None = None,
        die: Callable[[], None] = kill_self,
    ) -> None:
        self.endpoint = ""
        self.summary: dict[str, Any] = {}
        self._config = config
        self._folder = folder
        self._address = address
        self._logger = logger
        self._context = context
        self._supervisor = supervisor or NoSupervisor()
        self._supervised = not isinstance(self._supervisor, NoSupervisor)
        self._options = (holds, serve)
        self._resume = resume
        self._insecure = insecure
        self._doorkeeper = doorkeeper
        self._console = console or Lines(logger, config)
        self._die = die
        self._events: deque[e.Event] = deque()
        self._handling = False
        self._loop: GuardedLoop
        self._carriage: Carriage
        self._disk: Disk
        self._effects: Effects
        self._recovered: Recovered | None = None
        self._machine: Machine
        self._alarm: Alarm
        self._over: asyncio.Future[e.Exit]

    async def run(self) -> ExitCode:
        """Runs until the machine says `Exit`.

        Raises:
            ProgramError: Folder or address cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._loop = GuardedLoop(loop, self.fail)
        self._over = loop.create_future()
        self._limits = Limits(
            heartbeat_s=self._config.federation.heartbeat_s, lease_s=self._config.federation.lease_s
        )
        guard = self._doorkeeper.guard if self._doorkeeper else None
        address = bound(self._address, self._limits, self._context, insecure=self._insecure, guard=guard)
        with self._folder.locked(), address as socket, self._recording(socket):
            self.endpoint = socket.endpoint
            reader = loop.create_task(self._read(), name="server-reader")
            try:
                self._open()
                done = await self._over
                self._end(done)
            finally:
                self._handling = True  # nothing more is decided
                self._alarm.cancel()
                if self._doorkeeper is not None:
                    self._doorkeeper.close()
                self._effects.close()
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader
        self._supervisor.event("finished", **self.summary)
        return done.code

    def stop(self, why: str, code: ExitCode) -> None:
        """Ends the run in order; for signals. Call it in the loop's thread."""
        self._handle(e.Stop(why, code))

    def fail(self, error: Exception) -> None:
        """Ends the program at once, with this error; for callbacks that may not fail in silence."""
        if not self._over.done():
            self._over.set_exception(error)

    def go_on(self) -> str:
        """What a person does next after a run that ended early."""
        words = ["--resume", str(self._folder.path)]
        if self._doorkeeper is not None:
            words += ["--keys", str(self._doorkeeper.folder)]
        address = self.endpoint or self._address
        if address != DEFAULT_BIND:
            words += ["--bind", address]
        if self._insecure:
            words += ["--insecure"]
        return f"go on with: python -m server {shlex.join(words)}"

    # --- setting up and closing --------------------------------------------------------------------

    @contextlib.contextmanager
    def _recording(self, socket: ServerSocket) -> Iterator[None]:
        admission = Admission(self._config, self._folder.run_id)
        holds, serve = self._options
        ledger, resume = Ledger(admission.initial, control=admission.control), None
        if self._resume:
            with self._writing():
                self._recovered = recover(self._folder, admission.initial, admission.control)
            for damage in self._recovered.damaged:
                self._logger.warning(f"checkpoint is damaged and not used: {damage}")
            for mended in self._recovered.mended:
                self._logger.warning(mended.text)
            ledger, resume = self._recovered.ledger, self._recovered.resume
        self._machine = Machine(
            admission, ledger, lambda: secrets.token_bytes(16), holds=holds, serve=serve, resume=resume
        )
        self._alarm = Alarm(self._loop, self._machine.due, self._handle)
        with self._writing():
            self._disk = Disk(self._folder, self._die, self._loop.post)
        self._disk.recorder.resume(ledger.committed)
        self._connect(socket)
        try:
            yield
        finally:
            self._disk.close()
            self._console.close()

    def _connect(self, socket: ServerSocket) -> None:
        keyed = self._doorkeeper is not None
        self._carriage = Carriage(
            socket, self._limits, self._events.append, self._machine.tensor_bytes, keyed=keyed
        )
        self._effects = Effects(
            self._loop,
            self._over,
            carriage=self._carriage,
            disk=self._disk,
            logger=self._logger,
            console=self._console,
            supervisor=self._supervisor if self._supervised else None,
            die=self._die,
            happened=self._handle,
            failed=self._fail,
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Before there is anybody to send home: a folder that cannot be written is an error by name."""
        try:
            yield
        except OSError as error:
            raise ProgramError(ExitCode.FAILED, unwritable(error), self.go_on()) from error

    def _open(self) -> None:
        where = self._machine.room.ledger.committed
        text = f"run {self._config.name!r} is served at {self.endpoint}"
        self._logger.info(
            text, folder=str(self._folder.path), **({"resumed_after": where} if self._resume else {})
        )
        keys = self._doorkeeper is not None
        fields = {"address": self.endpoint, "resumed_after": where, "config": self._config.name, "keys": keys}
        with self._writing():
            self._disk.recorder.journal("started", fields, self._loop.time())
            for mended in self._recovered.mended if self._recovered else ():
                about = msgspec.structs.asdict(mended)
                self._disk.recorder.journal("journal_mended", about, self._loop.time())
            for agent in self._machine.room.ledger.released:  # with what an earlier process may have seen
                self._effects.carry_out(released(agent, self._machine.room.ledger))
        self._supervisor.event("listening", address=self.endpoint, run_dir=str(self._folder.path))
        self._supervisor.listen(self._from_thread)
        if self._doorkeeper is not None:
            self._doorkeeper.changed = lambda allowed: self._handle(e.Allowed(allowed))
            self._handle(e.Allowed(self._doorkeeper.allowed))
            self._doorkeeper.watch()
        self._handle(e.Started())

    def _end(self, done: e.Exit) -> None:
        self._disk.wait()  # a round whose commit had begun counts, also if the end came first
        newest, ledger = self._disk.recorder.newest, self._machine.room.ledger
        if newest > ledger.committed:
            ledger.commit(newest)
        best = self._disk.recorder.retention.best
        self.summary = summarize(self._machine, self._recovered, done, self._carriage.counted, best)
        fields = {"code": int(done.code), "outcome": done.outcome, "why": done.why, **done.cause._asdict()}
        try:
            self._disk.recorder.journal("exit", fields, self._loop.time())
            self._disk.recorder.summary(self.summary)
        except OSError as error:
            self._logger.error(f"the summary cannot be written: {error.strerror}")
        say = self._logger.info if done.code == ExitCode.OK else self._logger.warning
        hint = {} if done.outcome == "finished" or self._supervised else {"hint": self._next()}
        say(f"the server ends: {done.why}", exit_code=int(done.code), **hint)

    def _next(self) -> str:
        """What a person does next: a resume helps unless nobody may take part any more."""
        room = self._machine.room
        if room.ledger.quarantine.agents.issuperset(room.admission.planned):
            return "a resume keeps the quarantine: correct what was refused, and start a new run"
        return self.go_on()

    # --- events ------------------------------------------------------------------------------------

    def _handle(self, event: e.Event) -> None:
        """Passes one event to the machine; what carrying its commands out leads to follows in order."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                for command in self._machine.handle(self._events.popleft(), self._loop.time()):
                    self._effects.carry_out(command)
            self._alarm.arm()
        except BaseException as error:
            self._fail(error)
            return
        self._handling = self._over.done()

    def _fail(self, error: BaseException) -> None:
        """Ends the program; a run folder that cannot be written ends the run in order."""
        if self._over.done():
            return
        if not isinstance(error, OSError):
            self._over.set_exception(error)
            return
        self._handling = True
        self._events.clear()
        for command in self._machine.handle(e.Stop(unwritable(error), ExitCode.FAILED), self._loop.time()):
            if isinstance(command, e.Send | e.Exit):
                self._effects.carry_out(command)

    async def _read(self) -> None:
        try:
            while True:
                event = await self._carriage.receive()
                self._alarm.messages += 1
                self._handle(event)
        except Closed:
            return
        except Exception as error:
            self._fail(error)

    def _from_thread(self, command: Any) -> None:
        self._loop.post(self._obey, command)

    def _obey(self, command: Any) -> None:
        event = order(command)
        if event is None:
            self._logger.warning(f"the supervisor's command is not understood: {command}")
        else:
            self._alarm.defer(event)
