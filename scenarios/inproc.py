"""Programs as tasks of one process over ``inproc://``: the same server and agent, no start-up time.

A kill cancels the task: no BYE is sent, what its worker thread still computes is dropped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agent.runtime import AgentProgram
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.log import Logger
from edge_fed.program.run_folder import RunFolder
from protocol.transport.context import Context
from scenarios.actions import SERVER, Disturb, Kill, Mend, Pause, Resume, Start, Tell, Terminate
from scenarios.cast import Carried, EventsTo, Happenings, patience_s
from scenarios.orders import Ended, StartServer
from scenarios.scratch import Scratch
from scenarios.timeline import Scenario
from server.runtime import ServerProgram

KILLED = -9
ADDRESS = "inproc://server"

Program = Coroutine[Any, Any, tuple[int, str]]
Make = Callable[[EventsTo], Program]


class Tasks:
    """A cast of tasks that share one messaging context.

    Args:
        scenario: Checked and resolved.
        folder: The run folder; exists already.
        happenings: Where events and ends go.
        logger: Every program logs there, with its name.
    """

    def __init__(
        self,
        scenario: Scenario,
        folder: RunFolder,
        happenings: Happenings,
        logger: Logger,
    ) -> None:
        self._folder = folder
        self._happenings = happenings
        self._logger = logger
        self._patience_s = patience_s(scenario)
        self._context = Context()
        self._scratch = Scratch() if scenario.privacy.noisy else None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._supervisors: dict[str, EventsTo] = {}

    async def carry(self, order: Carried) -> None:
        """Carries one order out."""
        match order:
            case StartServer(holds=holds, resume=resume):
                self._begin(SERVER, lambda supervisor: self._server(holds, resume, supervisor))
            case Start():
                self._begin(order.child, lambda supervisor: self._agent(order, supervisor))
            case Kill(child=child):
                self._tasks[child].cancel()
            case Terminate(child=child) if child in self._tasks:
                self._supervisors[child].command({"command": "stop"})
            case Tell(child=child, command=command):
                if child in self._tasks:
                    self._supervisors[child].command(command)
            case Pause() | Resume() | Disturb() | Mend():
                raise AssertionError("a task cannot do that; check refuses it")

    async def stop(self) -> None:
        """Asks every program to end in order."""
        for child in self._tasks:
            self._supervisors[child].command({"command": "stop"})

    async def close(self, grace_s: float) -> None:
        """Ends every task, then the context."""
        tasks = set(self._tasks.values())
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._context.close()
        if self._scratch is not None:
            self._scratch.close()

    def _begin(self, child: str, make: Make) -> None:
        supervisor = self._supervisors[child] = EventsTo(child, self._happenings)
        self._tasks[child] = asyncio.create_task(self._live(child, make(supervisor)), name=child)

    async def _live(self, child: str, program: Program) -> None:
        """One program from start to end; however it ends, that is told."""
        code, why = KILLED, ""
        try:
            code, why = await program
        except ProgramError as error:
            code, why = int(error.code), error.message
        except asyncio.CancelledError:  # a kill
            pass
        except Exception as error:
            self._logger.exception(f"{child} failed")
            code, why = 1, f"{type(error).__name__}: {error}"
        finally:
            del self._tasks[child]
            self._happenings.put_nowait(Ended(child, code, why))

    async def _server(self, holds: tuple[int, ...], resume: bool, supervisor: EventsTo) -> tuple[int, str]:
        program = ServerProgram(
            self._folder.config,
            self._folder,
            ADDRESS,
            context=self._context,
            supervisor=supervisor,
            logger=self._logger.bind(program=SERVER),
            holds=frozenset(holds),
            resume=resume,
        )
        code = await program.run()
        return int(code), str(program.summary.get("why", ""))

    async def _agent(self, order: Start, supervisor: EventsTo) -> tuple[int, str]:
        program = AgentProgram(
            order.goal,
            ADDRESS,
            context=self._context,
            supervisor=supervisor,
            logger=self._logger.bind(program=order.child),
            role="onboard" if order.onboard else "auto",
            at=order.at,
            state_folder=self._folder.agents,
            secret_folder=self._scratch.path if self._scratch else None,
            give_up_after_s=self._patience_s,
            die=lambda: None,  # the program then ends without a word
        )
        code = await program.run()
        return (int(code), program.exit.why) if program.exit else (KILLED, "")
