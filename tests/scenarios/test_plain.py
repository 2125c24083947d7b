"""The plain runtime: the algorithm's loop, evaluations, onboarding, and what it leaves behind."""

import signal
from pathlib import Path
from typing import Any

import pytest

from edge_fed.config import overrides_by_goal
from edge_fed.errors import EdgeFedError
from edge_fed.evaluation import evaluate
from edge_fed.federated.per_fedavg_pg import full_attendance, per_fedavg_pg
from edge_fed.federated.task import initial_params, make_task
from edge_fed.meta import VARIANTS
from edge_fed.onboarding import onboard
from scenarios.cast import make_folder
from scenarios.outcome import Outcome, Signalled
from scenarios.plain import hashes, run_plain
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.scenarios.test_script import action
from tests.scenarios.tiny import ONBOARDING, tiny


class Notes(Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, level: str, text: str) -> None:
        """Keeps it."""
        self.said.append(f"{level}: {text}")


def contributors(outcome: Outcome) -> list[list[int]]:
    """Who contributed to each round."""
    return [[part["agent"] for part in line["contributors"]] for line in outcome.rounds]


def plain(scenario: Scenario) -> Outcome:
    """A run that nobody watches."""
    return run_plain(scenario, Silent())


def test_without_a_timeline_it_is_the_algorithm() -> None:
    """Same hashes as the loop that the paper states, same final parameters."""
    scenario = tiny()
    tasks = {goal: make_task(scenario, goal, own) for goal, own in overrides_by_goal(scenario).items()}
    expected = list(per_fedavg_pg(scenario, tasks, initial_params(scenario), full_attendance(tasks, 6)))
    outcome = plain(scenario)
    found = [line["params_sha256"] for line in outcome.rounds]
    assert found == [one.record.params_sha256 for one in expected]
    assert outcome.params_sha256 == found[-1]
    assert outcome.trajectories == dict.fromkeys(range(4), 6 * 2 * (4 + 4))
    row = evaluate(tasks[0], expected[-1].params, scenario.seed, scenario.onboarding)
    assert outcome.evaluated["rows"][0] == row


def test_joins_and_deaths_change_who_contributes() -> None:
    """[complaints 9] A joiner first folds in its round; one that dies after training does not count in it."""
    dies = action("restart", "0", "at_round = 2", 'point = "trained"')
    outcome = plain(tiny(action("join", when="at_round = 4") + dies))
    everybody, late = [0, 1, 2, 3], [0, 1, 2]
    assert contributors(outcome) == [late, [1, 2], late, everybody, everybody, everybody]
    assert outcome.rounds[1]["missing"] == {"0": "absent"}


def test_onboarders_measure_what_their_boundary_gives() -> None:
    """An onboarder in the timeline sees round r-1, the announced one the last round."""
    scenario = tiny(ONBOARDING + action("onboard", "0", "at_round = 3"))
    outcome = plain(scenario)
    reports = [line for line in outcome.evaluations if line["kind"] == "onboarding"]
    assert [(line["agent"], line["round"]) for line in reports] == [(0, 2), (8, 6)]
    task = make_task(scenario, 8, overrides_by_goal(scenario)[0])
    assert [row["goal"] for row in outcome.onboarding] == [0] * 5 + [8] * 5
    short = plain(tiny(ONBOARDING, "algorithm.rounds=2", "onboarding.goals=0"))
    assert short.onboarding == outcome.onboarding[:5]
    fresh = onboard(task, initial_params(scenario), scenario.seed, scenario.onboarding, lambda _done: None)
    untrained = plain(tiny(ONBOARDING, "algorithm.rounds=0"))
    assert untrained.onboarding == fresh.rows


def test_evaluations_come_before_after_and_as_often_as_asked() -> None:
    """Round 0, round K, and every second round in between."""
    outcome = plain(tiny("", "federation.evaluate_every=2", "algorithm.rounds=5"))
    found = [line["round"] for line in outcome.evaluations]
    assert found == [0, 2, 4, 5]


def test_what_changes_no_bits_is_left_out_and_said() -> None:
    """Slow devices and a killed server give the same hashes, and a note names them."""
    notes = Notes()
    scenario = tiny(action("slow", args="compute_delay_s = 9") + action("kill", "server"))
    outcome = run_plain(scenario, notes)
    assert [line["params_sha256"] for line in outcome.rounds] == list(hashes(tiny()))
    assert notes.said == ["info: the plain loop leaves out what changes no bits: slow 3, kill server"]


def test_a_long_inner_step_is_said_once_a_run_and_changes_nothing() -> None:
    """Four agents and an onboarder find it before and after; the records are those of a silent run."""
    notes, scenario = Notes(), tiny(ONBOARDING, "algorithm.inner_step_size=300")
    found, silent = run_plain(scenario, notes), plain(scenario)
    (line,) = notes.said
    assert line.startswith("warning: agent-0, the first to say so: the inner step leads far")
    assert (found.params_sha256, found.evaluations) == (silent.params_sha256, silent.evaluations)
    usual = Notes()
    run_plain(tiny(ONBOARDING), usual)
    assert usual.said == [], "theta = 0 at first: any step is longer, and none of these is far"


def test_a_run_folder_can_be_verified(tmp_path: Path) -> None:
    """The records that it leaves replay to the same bits."""
    scenario = tiny(
        action("join", when="at_round = 4"), "algorithm.participation=0.5", "algorithm.baseline=value"
    )
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    outcome = run_plain(scenario, Silent(), folder)
    assert outcome.run_dir == str(tmp_path / "run")
    found = verify(tmp_path / "run")
    assert (found.outcome, found.rounds) == ("equal", 6)


def test_a_signal_ends_a_run_with_what_there_is() -> None:
    """The rounds that were played stand in the result, beside the reason why there are no more."""

    class Impatient(Silent):
        def round(self, line: Any) -> None:
            if line["round"] == 3:
                raise Signalled(signal.SIGTERM)

    found = run_plain(tiny(), Impatient())
    assert found.failure is not None
    assert (found.failure.code, found.failure.message) == (143, "stopped by SIGTERM")
    assert [line["round"] for line in found.rounds] == [1, 2, 3]
    assert found.params_sha256 == found.rounds[-1]["params_sha256"]


def test_three_skipped_rounds_end_it_as_they_end_the_server(tmp_path: Path) -> None:
    """Exit code 3, three lines, no evaluation of the last round, no onboarding; the record replays."""
    scenario = tiny(ONBOARDING, "federation.max_update_norm=1e-6", "federation.quarantine_after=off")
    folder = make_folder(scenario, tmp_path / "run", overwrite=False)
    found = run_plain(scenario, Silent(), folder)
    assert found.failure is not None
    assert (found.exit_code, found.failure.type) == (3, "quorum")
    assert found.failure.message == "3 rounds in a row had too few updates"
    assert [line["outcome"] for line in folder.rows(folder.metrics)] == ["skipped"] * 3
    assert [(line["kind"], line["round"]) for line in found.evaluations] == [("evaluation", 0)]
    assert list(hashes(scenario)) == [line["params_sha256"] for line in found.rounds]
    assert verify(tmp_path / "run").outcome == "equal"


def test_the_third_skipped_round_may_be_the_last_one() -> None:
    """The run has all of its rounds, and has failed nevertheless, as over a network."""
    sets = ("federation.max_update_norm=1e-6", "federation.quarantine_after=off", "algorithm.rounds=3")
    found = run_plain(tiny("", *sets), Silent())
    assert (found.exit_code, len(found.rounds)) == (3, 3)


def test_code_that_exits_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant of the user's that calls sys.exit(0) ends the run with an error, not with exit code 0."""

    def exits(*_: object) -> None:
        raise SystemExit(0)

    monkeypatch.setitem(VARIANTS, "exact", exits)
    with pytest.raises(EdgeFedError, match="ended with SystemExit: 0"):
        plain(tiny("", "algorithm.variant=exact"))
