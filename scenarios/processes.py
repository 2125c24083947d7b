"""Programs as separate processes: ``python -P -m server`` and ``python -P -m agent``, supervised.

Each child has its own process group, JSON events on stdout, commands on stdin and a log file; the end of
its stdin tells it that the runner is dead. Nothing outlives the runner: what does not end is killed.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Any, Literal

from edge_fed.config import overrides_by_goal
from edge_fed.program.keys import AGENTS, agent_key_name
from edge_fed.program.run_folder import RunFolder
from scenarios.actions import SERVER, Disturb, Kill, Mend, Pause, Resume, Start, Tell, Terminate
from scenarios.cast import Carried, Happenings, patience_s
from scenarios.orders import Ended, Spoke, StartServer
from scenarios.proxy.fleet import Proxies
from scenarios.scratch import Scratch
from scenarios.timeline import Scenario, agents_of
from server.keygen import keygen

Transport = Literal["ipc", "tcp"]
LINE_BYTES = 64 * 1024 * 1024  # one event, e.g. an evaluation of thousands of agents
UNHEARD = frozenset({"assigned", "trained", "sent"})  # three per agent and round that decide nothing here
FAULTS = "faults.json"  # in the run folder: what the fault proxies did
REAP_S = 2.0  # a killed process that is not reaped by then is stuck in the kernel


class Processes:
    """A cast of child processes.

    Args:
        scenario: Checked and resolved.
        folder: The run folder; exists already.
        happenings: Where events and ends go.
        transport: ``ipc`` in a private folder, or ``tcp`` on a free port of the loopback.
        log_format: Of the children's logs.
        curve: Give every program a throw-away key: CURVE on every connection.
    """

    def __init__(
        self,
        scenario: Scenario,
        folder: RunFolder,
        happenings: Happenings,
        transport: Transport = "ipc",
        log_format: str = "text",
        *,
        curve: bool = False,
    ) -> None:
        self._folder = folder
        self._happenings = happenings
        self._patience_s = patience_s(scenario)
        self._log_format = log_format
        self._scratch = Scratch()
        self._private = self._scratch.path
        self._bind = f"ipc://{self._private}/server" if transport == "ipc" else "tcp://127.0.0.1:0"
        self._address = self._bind if transport == "ipc" else None
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._waiting: list[Start] = []  # until the server has a port
        disturbed = {a for action in scenario.timeline if action.do == "fault" for a in agents_of(action)}
        self._proxies = Proxies(disturbed, self._private, scenario.seed)
        self._keys = self._private / "keys" if curve else None
        if self._keys is not None:
            keygen(self._keys, frozenset(overrides_by_goal(scenario)))

    async def carry(self, order: Carried) -> None:
        """Carries one order out."""
        match order:
            case StartServer():
                await self._start_server(order)
            case Start():
                if self._address is None:
                    self._waiting.append(order)
                else:
                    await self._start_agent(order, self._address)
            case Kill(child=child):
                self._signal(child, signal.SIGKILL)
            case Terminate(child=child):
                self._signal(child, signal.SIGTERM)
            case Pause(child=child):
                self._signal(child, signal.SIGSTOP)
            case Resume(child=child):
                self._signal(child, signal.SIGCONT)
            case Disturb(child=child, rule=rule):
                self._proxies.arm(goal_of(child), rule)
            case Mend(child=child, rule=rule):
                self._proxies.heal(goal_of(child), rule)
            case Tell(child=child, command=command):
                await self._tell(child, command)

    async def close(self, grace_s: float) -> None:
        """Ends and reaps every child, then removes the private folder."""
        try:
            if self._readers and grace_s > 0:
                await asyncio.wait(self._readers, timeout=grace_s)
            for child in list(self._children):
                self._signal(child, signal.SIGKILL)
            if self._readers:
                await asyncio.wait(self._readers, timeout=REAP_S)
        finally:
            for child in list(self._children):  # also when this was cancelled
                self._signal(child, signal.SIGKILL)
            if self._readers:  # a loop that ends before its children are reaped complains of each
                await asyncio.wait(self._readers, timeout=REAP_S)
            await asyncio.sleep(0)  # for the ends of their pipes
            await self._proxies.close()
            self._scratch.close()
            if self._proxies:
                with contextlib.suppress(OSError):  # a full disk; the run itself says so
                    (self._folder.place / FAULTS).write_text(json.dumps(self._proxies.report()))

    def cut(self) -> None:
        """Kills every child at once, as a power cut does."""
        for child in list(self._children):
            self._signal(child, signal.SIGKILL)

    async def stop(self) -> None:
        """Asks every child to end in order: the word on stdin, then its end."""
        for child, process in list(self._children.items()):
            await self._tell(child, {"command": "stop"})
            if process.stdin:
                process.stdin.close()

    async def _start_server(self, order: StartServer) -> None:
        arguments = ["--resume", str(self._folder.place), "--bind", self._address or self._bind]
        if order.holds:
            arguments += ["--hold", ",".join(map(str, order.holds))]
        if self._keys is not None:
            arguments += ["--keys", str(self._keys)]
        await self._spawn(SERVER, "server", arguments)

    async def _start_agent(self, order: Start, address: str) -> None:
        if not order.onboard:
            address = await self._proxies.address(order.goal, address)
        arguments = ["--goal", str(order.goal), "--server", address]
        arguments += ["--state-dir", str(self._folder.agents), "--give-up-after", f"{self._patience_s:g}"]
        if self._folder.config.privacy.noisy:  # who gets the run folder must not get the noise with it
            arguments += ["--secret-dir", str(self._private)]
        if order.onboard:
            arguments += ["--onboard", "--at", str(order.at)]
        if self._keys is not None:
            if not (self._keys / AGENTS / agent_key_name(order.goal)).exists():  # an onboarder's
                keygen(self._keys, frozenset({order.goal}))
            arguments += ["--keys", str(self._keys)]
        await self._spawn(order.child, "agent", arguments)

    async def _spawn(self, child: str, program: str, arguments: list[str]) -> None:
        command = [sys.executable, "-P", "-m", program, *arguments]
        command += ["--supervised", "--log-format", self._log_format]
        with (self._folder.logs / f"{child}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES,
                process_group=0,
            )
        self._children[child] = process
        reader = asyncio.create_task(self._read(child, process), name=f"events of {child}")
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)

    async def _read(self, child: str, process: asyncio.subprocess.Process) -> None:
        """Passes a child's events on until it is gone, then reaps it."""
        assert process.stdout is not None
        why = ""
        async for line in process.stdout:
            event = _parse(line)
            if event is None:
                continue
            name = str(event.pop("event"))
            if name == "exit":
                why = str(event.get("why", ""))
            if child == SERVER and name == "listening":
                await self._listening(str(event["address"]))
            if name not in UNHEARD:
                self._happenings.put_nowait(Spoke(child, name, event))
        code = await process.wait()
        self._close_stdin(process)
        if self._children.get(child) is process:
            del self._children[child]
        self._happenings.put_nowait(Ended(child, code, why or self._last_words(child, code)))

    async def _listening(self, address: str) -> None:
        self._address = address
        waiting, self._waiting = self._waiting, []
        for order in waiting:
            await self._start_agent(order, address)

    async def _tell(self, child: str, command: dict[str, Any]) -> None:
        process = self._children.get(child)
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        with contextlib.suppress(ConnectionError):  # it is about to be reaped
            process.stdin.write(json.dumps(command).encode() + b"\n")
            await process.stdin.drain()

    def _signal(self, child: str, number: signal.Signals) -> None:
        process = self._children.get(child)
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _close_stdin(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()

    def _last_words(self, child: str, code: int) -> str:
        """The last line of the log of a child that failed without saying why on stdout."""
        if code <= 0:
            return ""
        with contextlib.suppress(OSError):
            lines = (self._folder.logs / f"{child}.log").read_text(errors="replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""


def goal_of(child: str) -> int:
    """The agent id of a child such as ``agent-3``."""
    return int(child.split("-")[1])


def _parse(line: bytes) -> dict[str, Any] | None:
    """One event, or None for anything that a child printed by mistake."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
