"""Attackers, robust rules, quarantine: the same bits and records in every runtime; verify replays them."""

import json
from pathlib import Path

import pytest

from edge_fed.program.run_folder import RunFolder
from scenarios.outcome import Outcome
from scenarios.plain import run_plain
from scenarios.timeline import Scenario
from scenarios.verify import verify
from scenarios.watching import Silent
from tests.integration.test_equality import hashes, networked
from tests.scenarios.test_script import action
from tests.scenarios.tiny import tiny

DECIDED = ("eligible", "cohort", "outcome", "quarantined", "conflicts", "params_sha256")


def attacked(attack: str, *sets: str, tail: str = "") -> Scenario:
    """Five agents on a small grid, of which 3 and 4 attack; random delays on the links of the others."""
    honest = '{goals="0-2",link={latency_s=0.001,jitter_s=0.01}}'
    return tiny(tail, f'agents=[{honest},{{goals="3-4",attack={attack}}}]', *sets)


def decided(outcome: Outcome) -> list[list[object]]:
    """What decides the rounds: all of the records but reasons in words, overrides and machines."""
    rows = [json.loads(json.dumps(dict(line))) for line in outcome.rounds]
    return [[*(row[name] for name in DECIDED), row["contributors"], sorted(row["missing"])] for row in rows]


def measured(outcome: Outcome) -> list[tuple[object, ...]]:
    """What was measured of which round, in order of rounds: onboarders report at a time of their own."""
    rows = [(line["kind"], line["round"], line["rows"]) for line in outcome.evaluations]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def assert_equal(scenario: Scenario, runtime: str, path: Path) -> tuple[Outcome, RunFolder]:
    """Runs it as a loop and over a network; every round must have been decided alike, and replay."""
    expected, (found, folder) = run_plain(scenario, Silent()), networked(scenario, runtime, path)
    assert found.failure is None
    assert decided(found) == decided(expected)
    assert found.honest == expected.honest
    assert verify(path).outcome == "equal"
    return found, folder


@pytest.mark.parametrize(
    ("rule", "attack"),
    [
        ("krum", '{kind="sign_flip",scale=5}'),
        ("geometric_median", '{kind="noise",scale=10}'),
        ("trimmed_mean", '{kind="little_is_enough",scale=1.5}'),
        ("clipped_mean", '{kind="noise",scale=10}'),
    ],
)
def test_a_rule_against_an_attack_gives_the_bits_of_the_plain_loop(
    rule: str, attack: str, tmp_path: Path
) -> None:
    """Every round's hash, with random delays; the record names the attackers."""
    scenario = attacked(attack, f"algorithm.rule={rule}", "algorithm.clip_norm=0.5")
    found, _ = assert_equal(scenario, "inproc", tmp_path / "run")
    assert len(set(hashes(found))) == len(hashes(found)), "a run that stands still shows nothing"
    assert [agent for agent, own in found.rounds[0]["overrides"].items() if own["attack"]] == ["3", "4"]


QUARANTINE = ("federation.max_update_norm=20", "algorithm.rounds=8", "algorithm.participation=0.8")
HUGE = '{kind="noise",scale=1000}'


def assert_quarantined(found: Outcome, folder: RunFolder) -> None:
    """Both attackers were refused three times in a row, and nobody asked them again or waited for them."""
    quarantined = {a: line["round"] for line in found.rounds for a in line["quarantined"]}
    assert set(quarantined) == {3, 4}
    assert found.rounds[-1]["eligible"] == [0, 1, 2]
    assert [row["agent"] for row in folder.rows(folder.events) if row["event"] == "quarantined"] == list(
        quarantined
    )
    assert [row["agent"] for row in found.evaluated["rows"]] == [0, 1, 2]


def test_quarantine_is_the_same_in_the_plain_loop(tmp_path: Path) -> None:
    """Records, parameters and final evaluation are equal, sampled cohorts included."""
    assert_quarantined(*assert_equal(attacked(HUGE, *QUARANTINE), "inproc", tmp_path / "run"))


JITTERED = 'agents=[{goals="0-4",link={latency_s=0.001,jitter_s=0.01}}]'
ENDS = {
    "all in quarantine": (
        "",
        (JITTERED, "federation.max_update_norm=1e-6", "federation.quarantine_after=2"),
        (2, "every training agent is in quarantine; the last refusal: refused: its norm is "),
    ),
    "too few for krum": (
        action("onboard", "0", "at_round = 2"),
        (
            f'agents=[{{goals="0-3"}},{{goals="4",attack={HUGE}}}]',
            "federation.max_update_norm=20",
            "federation.quarantine_after=5",
            "algorithm.rule=krum",
            "onboarding.eval_episodes=20000",  # longer than the rounds that are left
        ),
        (3, "3 rounds in a row had too few updates"),
    ),
    "one has left, the others are in quarantine": (
        action("leave", "0", "at_round = 3"),
        (
            f'agents=[{{goals="0"}},{{goals="1-2",attack={HUGE}}}]',
            "federation.max_update_norm=20",
            "federation.quarantine_after=2",
            "federation.min_updates=1",
            "federation.join_deadline_s=0.5",
        ),
        (2, "0 training agents are here, 1 are needed; missing: 0, 1, 2"),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_run_that_ends_early_ends_early_in_the_plain_loop(name: str, tmp_path: Path) -> None:
    """Same rounds, same measurements, exit code 3 for the same reason, and nobody is onboarded after it.

    Who was onboarded before it reports.
    """
    tail, sets, (rounds, why) = ENDS[name]
    scenario = tiny(tail, *sets, "algorithm.rounds=8", "federation.evaluate_every=1", "onboarding.goals=8")
    expected, (found, _) = run_plain(scenario, Silent()), networked(scenario, "inproc", tmp_path / "run")
    assert expected.failure and found.failure
    assert expected.exit_code == found.exit_code == 3
    assert expected.failure.message.startswith(why)
    assert found.failure.message == f"the server ended with exit code 3: {expected.failure.message}"
    assert len(expected.rounds) == rounds
    assert decided(found) == decided(expected)
    assert measured(found) == measured(expected)
    assert verify(tmp_path / "run").outcome == "equal"


@pytest.mark.processes
def test_programs_in_quarantine_end_and_do_not_come_back(tmp_path: Path) -> None:
    """Real programs exit with code 4; one that the timeline starts again is refused, and the run goes on."""
    path = tmp_path / "run"
    scenario = attacked(HUGE, *QUARANTINE, tail=action("restart", "3", "at_round = 8"))
    found, folder = networked(scenario, "ipc", path)
    assert found.failure is None
    assert len(found.rounds) == 8
    assert_quarantined(found, folder)
    assert verify(path).outcome == "equal"
    logs = "".join(log.read_text() for log in sorted(folder.logs.glob("agent-3*")))
    assert logs.count("refused by the server (quarantined)") == 2
    assert "start a new run" in logs
