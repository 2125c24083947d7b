"""An agent that trains nothing: what is left of a round is the system's own cost.

Run as a program: ``python -m scenarios.bench.empty_agent ADDRESS GOAL STATE_FOLDER [EVERY DELAY_S]``. It is
the real agent program, with its session, worker thread and codec; only the work is replaced by a zero
update. Every so many rounds it writes a `scenarios.bench.gauge.Sample` to stdout; 0: never.
"""

import asyncio
import sys
import time
from pathlib import Path

import numpy as np

from agent import events as e
from agent.learner import Learner
from agent.runtime import AgentProgram
from agent.worker import Progress
from edge_fed.config import Overrides
from edge_fed.params import F8, crc32
from edge_fed.program import log
from edge_fed.program.exit_codes import ExitCode
from scenarios.bench import gauge


class EmptyLearner(Learner):
    """Answers every round with zeros and every evaluation with a constant.

    Args:
        goal: Of this agent.
        folder: For its state; nothing is written.
        loop: Of its program, to be looked at.
        every: Rounds between two looks; 0: none.
        delay_s: How long a round's work takes.
    """

    _zeros: F8 | None = None
    _crc = 0

    def __init__(
        self, goal: int, folder: Path, loop: asyncio.AbstractEventLoop, every: int, delay_s: float
    ) -> None:
        super().__init__(goal, Overrides(), folder)
        self._loop = loop
        self._every = every
        self._delay_s = delay_s

    def train(self, work: e.Train, progress: Progress) -> e.Trained:  # noqa: ARG002
        """A zero update of the right size."""
        if self._zeros is None:
            self._zeros = np.zeros(work.params.size)
            self._crc = crc32(self._zeros)
        if self._every and work.round % self._every == 0:
            gauge.tell(gauge.look(work.round, self._loop))
        time.sleep(self._delay_s)
        return e.Trained(work.number, self._zeros, self._crc, 1, 0, {})

    def evaluate(self, work: e.Evaluate) -> e.Measured:
        """A row without sampling."""
        row = {
            **dict.fromkeys(("success", "success_adapted", "m_adapt")),
            **dict.fromkeys(("expected_return", "meta_objective"), 0.0),
            **dict.fromkeys(("trajectories", "env_steps"), 0),
        }
        return e.Measured(work.number, ({"agent": self._goal, "kind": "mc", **row},), 0)


async def run(address: str, goal: int, folder: Path, every: int, delay_s: float) -> ExitCode:
    """Runs one agent."""
    loop = asyncio.get_running_loop()
    performer = lambda: EmptyLearner(goal, folder, loop, every, delay_s)  # noqa: E731
    logger = log.configure("text", "error")
    return await AgentProgram(goal, address, logger=logger, state_folder=folder, performer=performer).run()


def main() -> None:
    """Runs the agent that the arguments name."""
    address, goal, folder, *gauged = sys.argv[1:]
    every, delay_s = (int(gauged[0]), float(gauged[1])) if gauged else (0, 0.0)
    raise SystemExit(asyncio.run(run(address, int(goal), Path(folder), every, delay_s)))


if __name__ == "__main__":
    main()
