"""What a program holds of the machine at one moment: memory, descriptors, threads, asyncio tasks."""

import asyncio
import os
import re
import sys
import time
from pathlib import Path

import msgspec


class Sample(msgspec.Struct, frozen=True):
    """One look of a program at itself.

    Attributes:
        round: The round it works for.
        time_s: Of the monotonic clock.
        process: Its process id: a program that was killed and started again is another process.
        rss_kib: Resident memory, exact (``smaps_rollup``).
        descriptors: Open ones.
        threads: Of the system.
        tasks: Of the event loop.
    """

    round: int
    time_s: float
    process: int
    rss_kib: int
    descriptors: int
    threads: int
    tasks: int


def look(round_: int, loop: asyncio.AbstractEventLoop) -> Sample:
    """Looks at this process; ``loop`` may run in another thread."""
    memory = re.search(r"^Rss:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    assert memory is not None
    return Sample(
        round=round_,
        time_s=time.monotonic(),
        process=os.getpid(),
        rss_kib=int(memory[1]),
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=len(os.listdir("/proc/self/task")),
        tasks=len(asyncio.all_tasks(loop)),
    )


def tell(sample: Sample) -> None:
    """Writes it to stdout, whole: whoever started this program keeps it."""
    sys.stdout.buffer.write(msgspec.json.encode(sample) + b"\n")
    sys.stdout.buffer.flush()


def samples_in(text: bytes) -> list[Sample]:
    """What a program has told; a line that a kill has torn is left out."""
    found = []
    for line in text.splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Sample))
        except msgspec.MsgspecError:
            continue
    return found
