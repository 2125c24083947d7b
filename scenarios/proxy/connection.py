"""One connection through the proxy: two lanes between two streams. No decision is made here."""

import asyncio
import contextlib
import math
from typing import NamedTuple

from scenarios.proxy.armed import Armed
from scenarios.proxy.lane import Lane
from scenarios.proxy.rules import Rule

READ_BYTES = 64 * 1024


class Stream(NamedTuple):
    """One end."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Connection:
    """Forwards between an agent (near) and the server (far) until one of them closes, or a fault says so.

    Args:
        armed: The faults of this agent.
        near: The agent's stream.
        far: The server's.

    Attributes:
        up: Agent to server.
        down: Server to agent.
    """

    def __init__(self, armed: Armed, near: Stream, far: Stream) -> None:
        self.up = Lane(armed, "up")
        self.down = Lane(armed, "down")
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._room = {id(lane): asyncio.Event() for lane in (self.up, self.down)}
        self._work = {id(lane): asyncio.Event() for lane in (self.up, self.down)}
        self._ends = (near, far)

    def check(self, rule: Rule) -> None:
        """Whether a fault can act here.

        Raises:
            OpaqueStream: It acts on whole messages, and those of this connection are encrypted.
        """
        for lane in (self.up, self.down):
            lane.check(rule)

    def wake(self) -> None:
        """The faults have changed."""
        for event in (*self._room.values(), *self._work.values()):
            event.set()

    async def run(self) -> None:
        """Forwards; both streams are closed when it returns, or is cancelled.

        Raises:
            NotZmtp: Something else than ZMTP 3.x came.
            OpaqueStream: A fault wants whole messages, and they are encrypted.
        """
        near, far = self._ends
        for end in self._ends:
            end.writer.transport.set_write_buffer_limits(high=0)
        tasks = [
            asyncio.create_task(self._read(self.up, near.reader)),
            asyncio.create_task(self._write(self.up, far.writer)),
            asyncio.create_task(self._read(self.down, far.reader)),
            asyncio.create_task(self._write(self.down, near.writer)),
        ]
        for task in tasks:
            task.add_done_callback(self._ended)
        try:
            await self._over
        finally:
            for task in tasks:
                task.cancel()
            for end in self._ends:  # what was to leave has left; before any wait, which may be cancelled
                end.writer.transport.abort()
            await asyncio.gather(*tasks, return_exceptions=True)
            for end in self._ends:
                with contextlib.suppress(OSError):
                    await end.writer.wait_closed()

    async def _read(self, lane: Lane, reader: asyncio.StreamReader) -> None:
        room, work = self._room[id(lane)], self._work[id(lane)]
        data = b"?"
        while data:
            while not lane.reading:
                room.clear()
                await room.wait()
            try:
                data = await reader.read(READ_BYTES)
            except OSError:  # reset: as good as closed
                data = b""
            if data:
                lane.feed(data, self._loop.time())
            work.set()
        lane.ended = True
        if self.up.ended and self.down.ended:
            self._finish()

    async def _write(self, lane: Lane, writer: asyncio.StreamWriter) -> None:
        room, work = self._room[id(lane)], self._work[id(lane)]
        while True:
            work.clear()
            leaving = lane.take(self._loop.time())
            if leaving is None:
                if lane.over:
                    self._finish()
                    return
                await self._until(work, lane.due())
                continue
            try:
                writer.write(leaving.data)
                await writer.drain()
            except OSError:  # its reader meets the same end
                lane.silence()
            if leaving.cut:
                self._finish()
                return
            room.set()

    async def _until(self, event: asyncio.Event, due: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if due == math.inf else due):
                await event.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails ends the connection with its error."""
        if not task.cancelled() and (error := task.exception()):
            self._finish(error)

    def _finish(self, error: BaseException | None = None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)
