"""A server whose agents train nothing, as a program of its own that says what it holds.

``python -m scenarios.bench.empty_server RUN_DIR ADDRESS EVERY [resume]``: the real server program; every
so many rounds it writes a `scenarios.bench.gauge.Sample` to stdout, and its address before all. It ends in
order with SIGTERM.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_fed.program import log
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import RunFolder
from scenarios.bench import gauge
from server.events import Wait
from server.runtime import ServerProgram


class Gauge:
    """A console that only looks at this process.

    Args:
        every: Rounds between two looks.
    """

    def __init__(self, every: int) -> None:
        self._every = every

    def round(self, line: Mapping[str, Any]) -> None:
        """Looks, if it is time."""
        if line["round"] % self._every == 0:
            gauge.tell(gauge.look(line["round"], asyncio.get_running_loop()))

    def wait(self, wait: Wait) -> None:
        """Says nothing."""

    def close(self) -> None:
        """Nothing is open."""


async def serve(folder: RunFolder, address: str, every: int, *, resume: bool) -> ExitCode:
    """Serves the folder's run."""
    logger = log.configure("text", "error")
    server = ServerProgram(folder.config, folder, address, logger=logger, console=Gauge(every), resume=resume)
    stop = lambda: server.stop("the soak is over", ExitCode.OK)  # noqa: E731
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    run = asyncio.create_task(server.run())
    while not server.endpoint and not run.done():
        await asyncio.sleep(0)
    print(json.dumps({"address": server.endpoint}), flush=True)
    return await run


def main() -> None:
    """Runs the server that the arguments name."""
    folder, address, every = RunFolder.open(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
    raise SystemExit(asyncio.run(serve(folder, address, every, resume=len(sys.argv) > 4)))


if __name__ == "__main__":
    main()
