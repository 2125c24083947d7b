"""An agent that trains nothing: what is left of a round is the system's own cost.

Run as a program: ``python -m scenarios.bench.empty_agent ADDRESS GOAL STATE_FOLDER``. It is the real agent
program, with its session, worker thread and codec; only the work is replaced by a zero update.
"""

import asyncio
import sys
from pathlib import Path

import numpy as np

from agent import events as e
from agent.learner import Learner
from agent.runtime import AgentProgram
from agent.worker import Progress
from edge_fed.config import Overrides
from edge_fed.params import F8, crc32
from edge_fed.program import log


class EmptyLearner(Learner):
    """Answers every round with zeros and every evaluation with a constant."""

    _zeros: F8 | None = None
    _crc = 0

    def train(self, work: e.Train, progress: Progress) -> e.Trained:  # noqa: ARG002
        """A zero update of the right size."""
        if self._zeros is None:
            self._zeros = np.zeros(work.params.size)
            self._crc = crc32(self._zeros)
        return e.Trained(work.number, self._zeros, self._crc, 1, 0, {})

    def evaluate(self, work: e.Evaluate) -> e.Measured:
        """A row without sampling."""
        row = {"agent": self._goal, "kind": "mc", "expected_return": 0.0, "meta_objective": 0.0}
        return e.Measured(work.number, (row,), 0)


def main() -> None:
    """Runs the agent that the arguments name."""
    address, goal, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    logger = log.configure("text", "error")
    performer = lambda: EmptyLearner(goal, Overrides(), folder)  # noqa: E731
    program = AgentProgram(goal, address, logger=logger, state_folder=folder, performer=performer)
    raise SystemExit(asyncio.run(program.run()))


if __name__ == "__main__":
    main()
