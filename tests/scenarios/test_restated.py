"""Sidecars and summaries that say something else than the rounds are differences."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios.verify import verify
from tests.scenarios.doctored import content, copied, edit_lines, edit_sidecar, edit_summary
from tests.scenarios.test_inproc import inproc
from tests.scenarios.test_script import action
from tests.scenarios.tiny import ONBOARDING, tiny

Change = Callable[[dict[str, Any]], None]
CHURN = action("kill", "1", "at_round = 3") + action("restart", "0", "at_round = 4")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run with a restart, a kill, an onboarder, and agents with state."""
    path = tmp_path_factory.mktemp("whole") / "run"
    inproc(tiny(ONBOARDING + CHURN, "algorithm.baseline=value", "federation.evaluate_every=2"), path)
    return content(path)


@pytest.fixture
def run(files: dict[str, bytes], tmp_path: Path) -> Path:
    """The same run, to be doctored."""
    return copied(files, tmp_path)


def test_an_honest_folder_is_equal(run: Path) -> None:
    """Whatever came and went in it."""
    found = verify(run)
    assert (found.outcome, found.rounds, found.differences, found.notes) == ("equal", 6, (), ())


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"params_sha256": "0" * 64}, "params_sha256"),
        ({"evaluation": {}}, "evaluation"),
        ({"best": {"round": 1, "meta_objective": 9.9}}, "best"),
        ({"rounds": 5}, "summary.json: params_sha256"),
        ({"rounds": 500}, "500 rounds, 6 are in"),
        ({"rounds": None}, "None rounds, 6 are in"),
        ({"bit_equal": False}, "bit_equal"),
        ({"fingerprints": []}, "fingerprints"),
        ({"quarantined": [3]}, "quarantined"),
        ({"outcome": "failed"}, "failed with exit code 0"),
        ({"exit_code": 1}, "finished with exit code 1"),
        ({"trajectories": {"0": 1}}, "trajectories"),
        ({"evaluation_trajectories": 1}, "evaluation_trajectories"),
        ({"onboarding": []}, "onboarding"),
        ({"onboarding_trajectories": 2}, "onboarding_trajectories"),
        ({"privacy": {"epsilon": 0.1}}, "privacy"),
        ({"run_id": "00" * 16}, "run_id"),
        ({"planned_rounds": 7}, "planned_rounds"),
        ({"rule": "krum"}, "rule"),
    ],
)
def test_a_lie_of_the_summary_is_named(run: Path, changes: dict[str, Any], word: str) -> None:
    """One value of ``summary.json`` is another one."""
    edit_summary(run, **changes)
    found = verify(run)
    assert found.outcome == "different"
    assert "summary.json" in found.differences[0] and word in " ".join(found.differences)


def test_a_summary_that_was_deleted_is_missed(run: Path) -> None:
    """The journal says that the run ended."""
    (run / "summary.json").unlink()
    assert verify(run).differences == (
        "summary.json is missing, but events.jsonl says how the run ended: the run is complete",
    )


def test_a_run_that_was_cut_is_shorter_than_its_summary(run: Path) -> None:
    """Rounds, evaluations and checkpoints fit each other, and not the summary."""
    edit_lines(run / "metrics.jsonl", lambda rows: rows[:2])
    edit_lines(run / "evaluations.jsonl", lambda rows: rows[:2])
    for round_ in range(3, 7):
        for end in ("json", "npz"):
            (run / "checkpoints" / f"round-{round_:06d}.{end}").unlink()
    assert verify(run).differences == ("summary.json says 6 rounds, 2 are in metrics.jsonl",)


def test_an_emptied_run_is_shorter_than_its_summary(run: Path) -> None:
    """Nothing is left to compare, except with what the summary says."""
    for name in ("metrics.jsonl", "evaluations.jsonl"):
        (run / name).write_text("")
    shutil.rmtree(run / "checkpoints")
    found = verify(run)
    assert found.outcome == "different" and found.rounds == 0


def test_a_summary_of_an_earlier_end_fits_a_run_that_went_on(run: Path) -> None:
    """A run was stopped after round 4, went on, and its second server was killed before it ended."""
    lines = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    rows = [row for row in lines if row["kind"] == "evaluation" and row["round"] <= 4]
    assert (len(lines), len(rows)) == (5, 3)
    record = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][:4]
    counted: dict[str, int] = {}
    for line in record:
        for part in line["contributors"]:
            counted[str(part["agent"])] = counted.get(str(part["agent"]), 0) + part["trajectories"]
    edit_lines(run / "events.jsonl", lambda found: [row for row in found if row["event"] != "exit"])
    edit_summary(
        run,
        rounds=4,
        outcome="stopped",
        exit_code=130,
        params_sha256=record[-1]["params_sha256"],
        trajectories=counted,
        evaluation={name: value for name, value in rows[-1].items() if name != "schema"},
        evaluation_trajectories=sum(row["trajectories"] for row in rows),
        best=max(
            ({"round": row["round"], "meta_objective": row["meta_objective"]} for row in rows),
            key=lambda best: (best["meta_objective"], best["round"]),
        ),
        onboarding=[],
        onboarding_trajectories=0,
    )
    assert verify(run).outcome == "equal"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t["book"]["trajectories"].update({"0": 9999}), "trajectories"),
        (lambda t: t["book"]["last_counted"].update({"0": 1}), "last_counted"),
        (lambda t: t["book"].update(skipped=2), "skipped"),
        (lambda t: t["book"].update(strikes={"1": 2}), "strikes"),
        (lambda t: t["book"].update(quarantined=[2]), "quarantined"),
        (lambda t: t["book"].update(control_since=3), "control_since"),
        (lambda t: t["book"].update(fingerprints=[]), "fingerprints"),
        (lambda t: t["book"]["last"]["0"].update(round=1), "newest update of agent 0"),
        (lambda t: t["book"]["last"]["0"].update(crc32=1), "was folded, not folded"),
        (lambda t: t["line"].update(seconds=0.0), "another line of its round"),
    ],
)
def test_a_sidecar_that_was_sealed_again_is_compared(run: Path, change: Change, word: str) -> None:
    """Its hash is right; its bookkeeping or its line is not."""
    edit_sidecar(run, 5, change)
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 5)
    assert word in found.differences[0]


def test_the_checkpoint_of_round_0_holds_the_initial_parameters(run: Path) -> None:
    """Another array with its own hash in the sidecar is a difference."""
    folder = run / "checkpoints"
    (folder / "round-000000.npz").write_bytes((folder / "round-000001.npz").read_bytes())
    first = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
    edit_sidecar(run, 0, lambda t: t.update(params_sha256=first["params_sha256"]))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 0)
    assert "params_sha256" in found.differences[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"fingerprints": {}}, "no fingerprint of the agents [0"),
        ({"arrivals": [2]}, "arrivals [2] were recorded"),
        ({"state_resets": [1]}, "state_resets [1] were recorded"),
        ({"overrides": {"77": {}}}, "overrides of agents [77]"),
        ({"metrics": {}}, "metrics: "),
    ],
)
def test_a_doctored_line_of_a_server_is_found_without_its_checkpoints(
    run: Path, changes: dict[str, Any], word: str
) -> None:
    """What only a server records is checked against who counted."""
    shutil.rmtree(run / "checkpoints")
    edit_lines(run / "metrics.jsonl", lambda rows: rows[3].update(changes))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 4)
    assert word in " ".join(found.differences)


def test_the_newest_round_is_compared_though_its_line_was_lost(run: Path) -> None:
    """A server that dies between checkpoint and line leaves its record in the sidecar."""
    edit_lines(run / "metrics.jsonl", lambda rows: rows[:-1])
    edit_sidecar(run, 6, lambda t: t["line"]["contributors"][0].update(weight=2.0))
    found = verify(run)
    assert (found.outcome, found.round) == ("different", 6)
    assert "weight 2.0 was recorded" in found.differences[0]
