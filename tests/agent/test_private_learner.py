"""The learner in a run with private noise: same noise after a restart, nothing else of its data leaves it."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from agent import events as e
from agent.learner import Learner
from agent.secret import FILE
from agent.worker import failure
from edge_fed.config import EnvironmentConfig, Overrides, Privacy
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import make_task
from edge_fed.program.exit_codes import ExitCode, ProgramError
from protocol import messages as m
from tests.agent.scripted import Agent, ServerSide, of, sent, texts
from tests.agent.test_learner import RUN, SMALL, learner, silent, start, train
from tests.agent.test_state_machine import init

WIDE = msgspec.structs.replace(  # goals that a few steps reach: the updates are not zero
    SMALL, environment=EnvironmentConfig(horizon=5, args={"radius": 0.9})
)
NOISY = msgspec.structs.replace(WIDE, privacy=Privacy(clip_norm=0.1, noise_multiplier=3.0))
CLIPPED = msgspec.structs.replace(WIDE, privacy=Privacy(clip_norm=1e-3))


def test_a_restarted_agent_sends_the_same_bits(tmp_path: Path) -> None:
    """[complaints 65] Its secret survived: no conflict, and no second noisy copy. Without it, other noise."""
    first = train(learner(tmp_path, NOISY), 1)
    again = train(learner(tmp_path, NOISY), 1)
    assert first.crc32 == again.crc32 and first.metrics == {}
    other = train(learner(tmp_path / "elsewhere", NOISY), 1)
    assert other.crc32 != first.crc32
    assert np.std(first.delta - other.delta) == pytest.approx(0.3 * np.sqrt(2), rel=0.3)


def test_the_secret_is_kept_where_it_is_told(tmp_path: Path) -> None:
    """Apart from the agent state, which a runner keeps in the run folder; one per run and agent."""
    train(learner(tmp_path / "state", NOISY, secret_folder=tmp_path / "secret"), 1)
    assert [path.name for path in (tmp_path / "state").rglob("*") if path.is_file()] == ["state-000001.npz"]
    assert (tmp_path / "secret" / RUN.hex() / "agent-2" / FILE).stat().st_size == 32


def test_clipping_alone_keeps_no_secret(tmp_path: Path) -> None:
    """There is nothing to hide; metrics say how much was cut."""
    found = train(learner(tmp_path, CLIPPED), 1)
    assert np.linalg.norm(found.delta) == pytest.approx(1e-3)
    assert found.metrics["clipped"] == 1.0 and not list(tmp_path.rglob(FILE))


def test_off_sends_the_local_update(tmp_path: Path) -> None:
    """[complaints 65] Bit by bit, and no secret is made."""
    mine = make_task(WIDE, 2, Overrides(inner_batch=6))
    direct = local_update(mine, start(), initial_state(mine), 11, 1, silent)
    found = train(learner(tmp_path, WIDE), 1)
    assert np.array_equal(found.delta, direct.delta) and found.delta.any()
    assert found.metrics == direct.metrics
    assert not list(tmp_path.rglob(FILE))


@pytest.mark.parametrize(
    ("options", "goal", "config", "kept"),
    [
        ({}, 2, NOISY, True),
        ({}, 7, NOISY, False),  # a goal that never trains reports, as it is announced
        ({}, 2, SMALL, False),
        ({"min_noise": 1.0}, 7, NOISY, True),
    ],
)
def test_measurements_of_private_agents_stay_with_them(
    tmp_path: Path, options: dict[str, Any], goal: int, config: Any, kept: bool
) -> None:
    """They would say of its data what the noise of its updates hides; the agent's own table has them."""
    measured = learner(tmp_path, config, goal, **options).perform(e.Onboard(2, 150, start()), silent)
    assert isinstance(measured, e.Measured)
    assert measured.private is kept and measured.rows


def test_an_agent_can_insist_on_noise(tmp_path: Path) -> None:
    """A server that says less noise is refused before anything is trained, with the flag that decides it."""
    learner(tmp_path, NOISY, min_noise=3.0)
    unbounded = msgspec.structs.replace(SMALL, privacy=Privacy(noise_multiplier=9.0))
    for config in (NOISY, SMALL, unbounded):
        with pytest.raises(ProgramError, match="insists on private noise of multiplier 4") as refused:
            learner(tmp_path, config, min_noise=4.0)
    failed = failure(e.Build(1, {}, RUN), refused.value)
    assert failed.code == ExitCode.REFUSED and "--min-noise" in failed.hint


def test_a_run_that_has_nothing_to_save_is_refused_before_it_begins(tmp_path: Path) -> None:
    """With private noise nobody who trains is evaluated: --save would keep nothing; an onboarder's does."""
    save = tmp_path / "p.npz"
    with pytest.raises(ProgramError, match="evaluates nothing: no agent that trains is sent what") as refused:
        learner(tmp_path, NOISY, save=save)
    failed = failure(e.Build(1, {}, RUN), refused.value)
    assert failed.code == ExitCode.REFUSED and "then --onboard --save" in failed.hint
    learner(tmp_path, CLIPPED, save=save)
    onboards = Learner(2, Overrides(), tmp_path, save=save)
    onboards.perform(e.Build(1, msgspec.to_builtins(NOISY), RUN, "onboard"), silent)
    onboards.perform(e.Onboard(2, 150, start()), silent)
    assert save.exists()


def test_the_server_hears_no_text_of_an_error() -> None:
    """It may quote what the agent met; the agent's own log has it with its trace, and the exit says why."""
    agent, server = Agent(), ServerSide()
    agent.join(server, private=True)
    (work,) = of(agent.tell(server.theta(1)), e.Train)
    commands = agent.tell(e.Failed(work.number, "KeyError: (0.3, 0.7) at home.py:3", trace="the trace"))
    error, bye = server.hear(commands)
    assert error.message == bye.reason == "round 1: failed; its own log says why"
    assert "home.py:3" in texts(commands) and "home.py:3" in of(commands, e.Exit)[0].why


def test_a_report_has_no_rows_and_the_table_has() -> None:
    """What a private agent measured is shown where it runs."""
    agent, server = Agent(), ServerSide()
    agent.join(server, role="onboard")
    (work,) = of(agent.tell(init(server)), e.Onboard)
    rows = ({"goal": 3, "return": 0.5},)
    commands = agent.tell(e.Measured(work.number, rows, 20, private=True))
    (report,) = sent(commands, m.Report)
    assert report.rows == () and report.trajectories == 20
    assert of(commands, e.Show)[0].rows == rows
