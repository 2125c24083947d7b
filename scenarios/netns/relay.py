"""Joins two TUN devices by a wire in each direction: what `tc netem` does, for kernels without it.

Every IP packet that the kernel sends into one device comes out of the other when `Wire` says so, or never.
"""

import contextlib
import fcntl
import heapq
import itertools
import os
import select
import struct
import threading
import time

from edge_fed.seeding import SERVER, Purpose, stream
from protocol.link import LinkProfile
from scenarios.netns.wire import Wire

TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000  # IP packets, without a header before them
LONGEST_PACKET = 65_536


def open_tun(name: str) -> int:
    """Makes a TUN device and returns its file; the device ends with it.

    Raises:
        OSError: This is not root, or the kernel has no TUN.
    """
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    except OSError:
        os.close(file)
        raise
    return file


class Relay:
    """Carries packets between two files of TUN devices, in a thread of its own, until it is closed.

    Args:
        one: The device of one end; closed with the relay.
        other: That of the other end; closed with the relay.
        link: Of both directions.
        seed: Of losses and jitter.
    """

    def __init__(self, one: int, other: int, link: LinkProfile, seed: int) -> None:
        self._ends = {one: other, other: one}
        self._wires = {
            end: Wire(link, stream(seed, SERVER, 0, side, Purpose.LINK).random)
            for side, end in enumerate(self._ends)
        }
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._numbers = itertools.count()
        self._stop, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops; packets that are still on the wire are lost."""
        os.write(self._wake, b"x")
        self._thread.join()
        for file in (*self._ends, self._stop, self._wake):
            os.close(file)

    def _run(self) -> None:
        poll = select.poll()
        for file in (*self._ends, self._stop):
            poll.register(file, select.POLLIN)
        while True:
            ready = {file for file, _ in poll.poll(self._patience_ms())}
            if self._stop in ready:
                return
            for end in ready:
                self._take(end)
            self._deliver()

    def _patience_ms(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, 1000 * (self._waiting[0][0] - time.monotonic()))

    def _take(self, end: int) -> None:
        """Reads all packets that the kernel has sent into this device."""
        while True:
            try:
                packet = os.read(end, LONGEST_PACKET)
            except BlockingIOError:
                return
            arrival = self._wires[end].arrival(len(packet), time.monotonic())
            if arrival is not None:
                heapq.heappush(self._waiting, (arrival, next(self._numbers), self._ends[end], packet))

    def _deliver(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            *_, end, packet = heapq.heappop(self._waiting)
            with contextlib.suppress(
                OSError
            ):  # the device is not up yet, or not any more: the packet is lost
                os.write(end, packet)
