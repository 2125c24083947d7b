"""The benchmark of empty rounds measures what its rows say."""

from typing import Any

import pytest

from scenarios.bench.rounds import empty_rounds
from server.recording import Recorder


@pytest.mark.processes
@pytest.mark.parametrize("checkpoint", [True, False])
def test_without_checkpoints_nothing_is_written(monkeypatch: pytest.MonkeyPatch, checkpoint: bool) -> None:
    """Of the two rows of 40 MB, one has the disk in it and the other has not."""
    written: list[int] = []
    commit = Recorder.commit

    def noted(self: Recorder, command: Any, *counted: int) -> dict[str, Any]:
        written.append(command.round)
        return commit(self, command, *counted)

    monkeypatch.setattr(Recorder, "commit", noted)
    assert len(empty_rounds(1, (4,), 2, checkpoint=checkpoint)) == 2
    assert written == ([0, 1, 2, 3, 4] if checkpoint else [])
