"""Between the machine and the socket: frames, the emulated link, and what the socket reports."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from agent import events as e
from agent.lane import Lane
from edge_fed.program.guard import GuardedLoop
from protocol.codec import DEFAULT_LIMITS, Frames, decode, encode
from protocol.errors import Closed, NotConnected, RemoteProtocolError, VersionMismatch
from protocol.limits import Limits
from protocol.link import Direction, Link, LinkProfile, draws
from protocol.messages import Message
from protocol.session import name
from protocol.transport import AgentSocket

PERFECT = LinkProfile()


class Carriage:
    """Carries messages both ways and delivers events; every method runs in the loop's thread.

    Args:
        socket: Of this agent; closed by `close`.
        agent: Keys the draws of the emulated link.
        deliver: Called with each event.
        broken: Called with an error that should not exist, of whatever runs here on its own.

    Attributes:
        limits: Of the wire, as WELCOME said.
    """

    def __init__(
        self,
        socket: AgentSocket,
        agent: int,
        deliver: Callable[[e.Event], None],
        broken: Callable[[BaseException], None],
    ) -> None:
        self.limits: Limits = DEFAULT_LIMITS
        self._socket = socket
        self._agent = agent
        self._deliver = deliver
        self._broken = broken
        self._draws = draws(0, agent)
        self._link = Link(PERFECT, lambda key: self._draws(key))
        loop = GuardedLoop(asyncio.get_running_loop(), broken)
        self._clock = loop.time
        self._lanes: dict[Direction, Lane] = {"up": Lane(loop), "down": Lane(loop)}
        self._attempts: dict[tuple[Direction, str], tuple[int, int]] = {}
        self._waiting: asyncio.Task[None] | None = None
        self._reader = asyncio.create_task(self._read(), name=f"agent {agent} reads")
        self._watcher = asyncio.create_task(self._refused(), name=f"agent {agent} is let in")
        for task in (self._reader, self._watcher):
            task.add_done_callback(self._ended)

    def seed(self, seed: int) -> None:
        """The run's seed is known: it keys the emulated link from now on."""
        self._draws = draws(seed, self._agent)

    def emulate(self, profile: LinkProfile) -> None:
        """Messages travel over such a link from now on."""
        self._link.profile = profile

    def send(self, command: e.Send) -> None:
        """Encodes a message and lets it travel.

        Raises:
            LocalProtocolError: It is beyond the limits; the message names size and limit.
        """
        message = command.message
        frames = encode(command.header, message, command.tensors, self.limits)
        self._travel("up", message, _size(frames), lambda: self._leave(message, frames))

    async def close(self, linger_ms: int) -> None:
        """Closes the socket; with a linger, what is under way up still leaves."""
        if linger_ms:
            self._lanes["up"].hurry()
        for lane in self._lanes.values():
            lane.clear()
        tasks = [task for task in (self._reader, self._watcher, self._waiting) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close(linger_ms)

    def _travel(self, way: Direction, message: Message, size: int, arrive: Callable[[], None]) -> None:
        lane = self._lanes[way]
        if self._link.profile == PERFECT and not lane:
            arrive()
            return
        kind, round_ = name(type(message)), int(getattr(message, "round", 0))
        last, times = self._attempts.get((way, kind), (round_, 0))
        attempt = times if last == round_ else 0
        self._attempts[way, kind] = (round_, attempt + 1)
        lane.put(self._link.delivery(way, size, self._clock(), kind, round_, attempt), arrive)

    def _leave(self, message: Message, frames: Frames) -> None:
        try:
            self._socket.send(frames)
        except NotConnected:
            self._deliver(e.NotSent(message))
            if self._waiting is None or self._waiting.done():
                self._waiting = asyncio.create_task(self._find(), name=f"agent {self._agent} connects")
                self._waiting.add_done_callback(self._ended)

    async def _find(self) -> None:
        with contextlib.suppress(Closed):
            await self._socket.writable()
            self._deliver(e.Reachable())

    async def _refused(self) -> None:
        self._deliver(e.Refused(await self._socket.refused()))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._broken(error)

    async def _read(self) -> None:
        with contextlib.suppress(Closed):
            while True:
                frames = await self._socket.receive()
                try:
                    got = decode(frames, self.limits)
                except VersionMismatch as error:
                    self._deliver(e.PeerVersion(error.major, error.minor))
                except RemoteProtocolError as error:
                    self._deliver(e.Malformed(error.code, str(error)))
                else:
                    event = e.Received(got.header, got.message, got.tensors)
                    self._travel("down", got.message, _size(frames), partial(self._deliver, event))


def _size(frames: Frames | list[memoryview]) -> int:
    return sum(frame.nbytes if isinstance(frame, memoryview) else len(frame) for frame in frames)
