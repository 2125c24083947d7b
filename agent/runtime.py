"""The agent program around its state machine: socket, timer, worker thread, supervisor, emulated link.

No decision is made here. One event at a time goes to the machine, and its commands are carried out in order.
"""

import asyncio
import contextlib
import os
import platform
import secrets
import signal
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from agent import events as e
from agent.carriage import Carriage
from agent.orders import obey
from agent.plan import Plan
from agent.state_machine import Machine
from agent.worker import Performer, Worker
from edge_fed.config import Overrides, changed
from edge_fed.profiles import link_values, response_s
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.guard import GuardedLoop
from edge_fed.program.log import Logger
from edge_fed.program.supervision import NoSupervisor, Supervisor
from edge_fed.seeding import Purpose, stream
from protocol.errors import AddressError, LibraryTooOld, LocalProtocolError
from protocol.link import LinkProfile
from protocol.transport import AgentKeys, AgentSocket, Context, public_of

LINGER_MS = 500  # for a BYE or REPORT that is still in the pipe
TERM_S = 0.75
WORKER_END_S = 2.0  # a step that lasts longer is left to die with the process
WANTED = (ExitCode.OK, ExitCode.INTERRUPTED, ExitCode.TERMINATED)
Show = Callable[[int, tuple[dict[str, Any], ...]], None]


def kill_self() -> None:
    """Ends this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


class AgentProgram:
    """One agent, from its first connection to its exit code.

    Args:
        goal: Agent id = goal.
        address: The server's.
        context: Share it with the server for ``inproc://``; None: one of its own.
        supervisor: Who started this program, if that is a program.
        logger: Where lines go.
        overrides: What this agent sets for itself.
        role: ``onboard``: do not train even if the goal could.
        state_folder: Where agent state survives a restart.
        give_up_after_s: Patience without a server.
        at: The initialization that an onboarder wants: ``final``, ``now``, or that of a round.
        save: Where to keep the adapted policy.
        take_over: Displace a living agent of the same goal.
        secret_folder: Where the secret of its private noise survives a restart; None: with the state.
        min_noise: Noise multiplier below which it does not take part.
        keys: Its own secret key and the server's public key; None: it speaks in clear.
        key_file: Where they come from, for messages to people.
        show: Called with the round and an onboarder's rows.
        die: What the supervisor's ``die`` does.
        performer: Makes who does the work, in the worker thread; None: `agent.learner.Learner`.

    Attributes:
        exit: How the program ended; None while it runs.
        busy: The worker thread was still in a step when the program had ended.
        table: Command -> who carries it out, a subclass's own methods included.
    """

    def __init__(
        self,
        goal: int,
        address: str,
        *,
        logger: Logger,
        state_folder: Path,
        context: Context | None = None,
        supervisor: Supervisor | None = None,
        overrides: Overrides | None = None,
        role: Literal["auto", "onboard"] = "auto",
        give_up_after_s: float = 60.0,
        at: Literal["final", "now"] | int = "final",
        save: Path | None = None,
        take_over: bool = False,
        secret_folder: Path | None = None,
        min_noise: float = 0.0,
        keys: AgentKeys | None = None,
        key_file: str = "",
        show: Show = lambda _round, _rows: None,
        die: Callable[[], None] = kill_self,
        performer: Callable[[], Performer] | None = None,
    ) -> None:
        self.exit: e.Exit | None = None
        self.busy = False
        self._goal = goal
        self._own = overrides or Overrides()
        self._address = address
        self._context = context
        self._supervisor = supervisor or NoSupervisor()
        self._logger = logger
        self._show = show
        self._die = die
        self._performer = performer or self._learner(state_folder, save, secret_folder, min_noise)
        self._plan = Plan(
            agent=goal,
            incarnation=secrets.token_bytes(16),
            address=address,
            role=role,
            overrides=changed(self._own),
            versions={"python": platform.python_version(), "numpy": np.__version__},
            give_up_after_s=give_up_after_s,
            at="round" if isinstance(at, int) else at,
            at_round=at if isinstance(at, int) else 0,
            take_over=take_over,
            public_key=public_of(keys.secret) if keys else "",
            key_file=key_file,
        )
        self._keys = keys
        self.table: dict[type[e.Command], Callable[[Any], None]] = {
            e.Send: self._send,
            **dict.fromkeys((e.Build, e.Train, e.Evaluate, e.Onboard), self._work),
            e.StopWork: self._stop_work,
            e.Log: self._log,
            e.Tell: self._pass_on,
            e.Show: self._show_rows,
            e.Die: self._kill,
            e.Exit: self._exit,
        }
        self._events: deque[e.Event] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ordered = False  # the supervisor has set delay or link
        self._loop: GuardedLoop
        self._machine: Machine
        self._worker: Worker
        self._carriage: Carriage
        self._over: asyncio.Future[None]

    async def run(self) -> ExitCode:
        """Runs until the machine says `Exit`. Cancelling it is a kill: no BYE, nothing is kept.

        Raises:
            ProgramError: The address cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._loop = GuardedLoop(loop, self.fail)
        try:
            context = self._context or Context()
        except LibraryTooOld as error:
            raise ProgramError(ExitCode.USAGE, str(error)) from error
        try:
            socket = AgentSocket.connect(context, self._address, keys=self._keys)
        except AddressError as error:
            self._close_own(context)
            self._supervisor.event("exit", code=int(ExitCode.ADDRESS), why=str(error))
            raise ProgramError(ExitCode.ADDRESS, str(error)) from error
        self._over = loop.create_future()
        thread_ended = asyncio.Event()
        self._worker = Worker(
            self._performer, self._from_thread(self._worked), self._from_thread(thread_ended.set)
        )
        self._machine = Machine(self._plan, loop.time(), self._jitter)
        self._carriage = Carriage(socket, self._goal, self.tell, self._finish)
        linger_ms = 0
        self._worker.start()
        try:
            self._carriage.emulate(_profile(self._own))
            self._supervisor.listen(self._from_thread(self._command))
            self.tell(e.Tick())
            await self._over
            linger_ms = LINGER_MS if self.exit else 0
        finally:
            if self._timer:
                self._timer.cancel()
            self._worker.close()
            await self._carriage.close(linger_ms)
            await _at_most(WORKER_END_S, thread_ended)
            self.busy = not self._worker.join(0.1 if thread_ended.is_set() else 0.0)
            self._close_own(context)
        if self.exit is None:  # a kill that the process survived: it runs inside another program
            return ExitCode.FAILED
        self._supervisor.event("exit", code=int(self.exit.code), why=self.exit.why)
        return self.exit.code

    def stop(self, why: str, code: ExitCode) -> None:
        """Ends in order, with BYE; call it in the loop's thread."""
        self.tell(e.Stop(why, code))

    def fail(self, error: Exception) -> None:
        """Ends at once, with this error; for callbacks that may not fail in silence."""
        self._finish(error)

    # --- events in, commands out -------------------------------------------------------------------

    def tell(self, event: e.Event) -> None:
        """Passes an event on; what carrying out its commands leads to comes after it."""
        self._events.append(event)
        if len(self._events) > 1 or self._over.done():
            return
        try:
            while self._events:
                for command in self._machine.handle(self._events[0], self._loop.time()):
                    self.table[type(command)](command)
                self._events.popleft()
            self._set_timer()
        except _Killed:
            self._events.clear()
            self._finish()
        except BaseException as error:  # a bug ends the program with its trace, never with a silent wait
            self._events.clear()
            self._finish(error)

    def _worked(self, event: e.Event) -> None:
        if isinstance(event, e.Built):
            self._carriage.seed(event.seed)
            slow = event.overrides.responsiveness
            self._worker.response_s = lambda round_: response_s(slow, event.seed, self._goal, round_)
            if not self._ordered:
                self._worker.delay_s = event.overrides.compute_delay_s or 0.0
                self._carriage.emulate(_profile(event.overrides))
        self.tell(event)

    def _set_timer(self) -> None:
        due = self._machine.due()
        if self._over.done() or (self._timer and self._timer.when() <= due):
            return  # a timer that comes too early looks again
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._ring, due)

    def _ring(self, due: float) -> None:
        self._timer = None
        late_s = max(0.0, self._loop.time() - due)
        self.tell(e.Tick(self._worker.progress, late_s, self._worker.says))

    def _from_thread(self, function: Callable[..., Any]) -> Callable[..., None]:
        return lambda *args: self._loop.post(function, *args)

    def _finish(self, error: BaseException | None = None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    # --- commands ----------------------------------------------------------------------------------

    def _send(self, command: e.Send) -> None:
        self._carriage.limits = self._machine.limits
        try:
            self._carriage.send(command)
        except LocalProtocolError as error:
            self._logger.error(f"{type(command.message).__name__} cannot be sent: {error}")
            self.stop(f"a message is illegal: {error}", ExitCode.FAILED)

    def _work(self, command: e.Work) -> None:
        self._worker.submit(command)

    def _stop_work(self, _command: e.StopWork) -> None:
        self._worker.stop()

    def _pass_on(self, command: e.Tell) -> None:
        self._supervisor.event(command.name, **command.fields)

    def _show_rows(self, command: e.Show) -> None:
        self._show(command.round, command.rows)

    def _log(self, command: e.Log) -> None:
        getattr(self._logger, command.level)(command.text, **command.fields)

    def _kill(self, _command: e.Die) -> None:
        self._die()
        raise _Killed

    def _exit(self, command: e.Exit) -> None:
        self.exit = command
        level = "info" if command.code in WANTED else "error"
        fields = {"code": int(command.code)} | ({"hint": command.hint} if command.hint else {})
        getattr(self._logger, level)(f"exit: {command.why}", **fields)
        self._finish()

    # --- the supervisor ----------------------------------------------------------------------------

    def slow(self, compute_delay_s: float) -> None:
        """Adds so many seconds to each local step from now on."""
        self._ordered = True
        self._worker.delay_s = compute_delay_s

    def emulate(self, profile: LinkProfile) -> None:
        """Messages travel over such a link from now on."""
        self._ordered = True
        self._carriage.emulate(profile)

    def _command(self, command: Mapping[str, Any]) -> None:
        if self._over.done():
            return
        try:
            obey(self, command)
        except (ValueError, KeyError) as error:
            self._logger.warning(f"the supervisor's command {dict(command)} is wrong: {error}")

    # --- helpers -----------------------------------------------------------------------------------

    def _learner(
        self, state_folder: Path, save: Path | None, secret_folder: Path | None, min_noise: float
    ) -> Callable[[], Performer]:
        def make() -> Performer:
            from agent.learner import Learner  # environments and policies load while the socket connects

            return Learner(self._goal, self._own, state_folder, save, secret_folder, min_noise)

        return make

    def _jitter(self, attempt: int) -> float:
        key = int.from_bytes(self._plan.incarnation[:8], "little")
        return float(stream(key, self._goal, 0, attempt, Purpose.LINK).random())

    def _close_own(self, context: Context) -> None:
        if self._context is None:
            context.close(TERM_S)


class _Killed(BaseException):
    """The supervisor's ``die`` was carried out in a process that lives on."""


async def _at_most(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _profile(overrides: Overrides) -> LinkProfile:
    return msgspec.convert(link_values(overrides), LinkProfile)
