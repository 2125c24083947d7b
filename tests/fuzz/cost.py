"""``python -m tests.fuzz.cost``: what refusing each hostile message costs, in time and memory."""

import statistics
import time
import tracemalloc
from collections.abc import Sequence

import msgpack

from protocol.codec import OURS, decode
from protocol.errors import RemoteProtocolError
from protocol.limits import MAX_HEADER_BYTES
from tests.server.test_hostile_frames import HOSTILE

REPEATS = 50
SHOWN = 8
WORST: dict[str, list[bytes]] = {
    "64 KiB of empty maps": [OURS, b"\xdd\x00\x00\xff\xfb" + b"\x80" * (MAX_HEADER_BYTES - 5)],
    "64 KiB of integers": [OURS, b"\xdd\x00\x00\xff\xfb" + b"\x7f" * (MAX_HEADER_BYTES - 5)],
    "64 KiB of empty lists": [OURS, b"\xdd\x00\x00\xff\xfb" + b"\x90" * (MAX_HEADER_BYTES - 5)],
    "64 KiB of floats": [OURS, b"\xdd\x00\x00\x1c\x71" + b"\xcb12345678" * 7281],
    "64 KiB of keys": [OURS, msgpack.packb({f"{number:03x}": None for number in range(13_000)})],
    "8,000 maps in a message": [OURS, msgpack.packb({"message": {"t": "PING", "x": [{}] * 8000}})],
    "1,090 frames": [OURS, b"\x80", *[b"x"] * 1088],
    "unknown type, long": [OURS, b"\x81\xa7message\x81\xa1t\xc5\xf0\x00" + b"y" * 0xF000],
}  # fmt: skip


def refused(frames: Sequence[bytes]) -> None:
    """Decodes what cannot be decoded."""
    try:
        decode(frames)
    except RemoteProtocolError:
        return
    raise AssertionError("this is a message")


def main() -> None:
    """Prints the slowest and the hungriest."""
    rows = []
    for title, frames in {**HOSTILE, **WORST}.items():
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            refused(frames)
            times.append(time.perf_counter() - start)
        tracemalloc.start()
        refused(frames)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append((statistics.median(times) * 1e3, min(times) * 1e3, peak // 1024, title))
    rows.sort(reverse=True)
    print(f"{len(rows)} messages, {REPEATS} times each: median ms, least ms, peak KiB")
    for median, least, peak, title in rows[:SHOWN]:
        print(f"{median:8.3f} {least:8.3f} {peak:7}  {title}")
    print(f"the median over all messages: {statistics.median(row[0] for row in rows):.3f} ms")


if __name__ == "__main__":
    main()
