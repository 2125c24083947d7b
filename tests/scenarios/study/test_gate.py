"""The gate of a family: the ratio by hand, who is the best shared policy, and what is printed."""

import json
from io import StringIO

import pytest
from rich.console import Console

from scenarios.__main__ import main
from scenarios.study import command
from scenarios.study.gate import gate_line, gate_of, held_out_table
from scenarios.study.results import Measurement, Results

RETURNS = {
    ("first_order", 40, "learned", 0): [2.0, 4.0],
    ("first_order", 40, "learned", 100): [3.0, 6.0],
    ("first_order", 40, "careful", 100): [3.0, 5.0],
    ("fedavg_pg", 40, "learned", 0): [3.0, 5.0],
    ("fedavg_pg", 40, "learned", 100): [3.5, 5.5],
    ("scratch", 0, "scratch", 100): [2.5, 2.5],
    ("specialist", 0, "scratch", 100): [1.0, 1.0],
    ("specialist", 0, "scratch", 9000): [6.0, 9.0],
    ("specialist", 0, "learned", 0): [1.0, 1.0],
    ("uniform", 0, "learned", 0): [0.0, 1.0],
    ("uniform", 0, "learned", 20): [0.5, 1.5],
}


def results(**without) -> Results:
    """Two seeds of every arm; ``fraction_kept`` of the careful row, ``fraction_hurt`` of one."""
    rows = [
        Measurement(arm, seed, "0", round_, policy, m, "return", value)
        for (arm, round_, policy, m), values in RETURNS.items()
        for seed, value in enumerate(values)
        if arm not in without
    ]
    for outcome, value in (("fraction_kept", 0.25), ("fraction_hurt", 0.125)):
        rows += [Measurement("first_order", s, "0", 40, "careful", 100, outcome, value) for s in range(2)]
    return Results("here", tuple(rows))


def test_the_gate_is_the_specialists_lead_over_the_best_shared_policy():
    """Seeds: (6 - 3) / (6 - 0) and (9 - 5) / (9 - 1); the best zero-shot arm, not one after a step."""
    gate = gate_of(results())
    assert (gate.best, gate.budget, gate.returns) == ("fedavg_pg", 9000, (7.5, 4.0, 0.5))
    assert gate.share.points == (0.5, 0.5) and gate.passed
    assert "fedavg_pg zero-shot 4.000" in gate_line(gate) and "passed" in gate_line(gate)
    assert "9,000 trajectories" in gate_line(gate)


def test_a_family_that_one_policy_serves_does_not_pass(monkeypatch):
    """A shared policy as good as the specialist: 0, and the line says so."""
    monkeypatch.setitem(RETURNS, ("fedavg_pg", 40, "learned", 0), [6.0, 9.0])
    gate = gate_of(results())
    assert gate.share.mean == 0 and not gate.passed
    assert "NOT passed (needs 0.2)" in gate_line(gate)


@pytest.mark.parametrize("missing", ["specialist", "uniform"])
def test_studies_without_these_arms_have_no_gate(missing):
    """Most have none."""
    assert gate_of(results(**{missing: True})) is None


def test_the_table_shows_what_a_newcomer_gets():
    """Rows of trained arms, of scratch and of the uniform policy; worst agents, hurt and kept where known."""
    console = Console(file=StringIO(), width=200)
    console.print(held_out_table(results()))
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    cells = {tuple(line[:3]): line[3:] for line in lines if len(line) > 5}
    assert ("uniform", "learned", "0") in cells and ("uniform", "learned", "20") not in cells
    assert ("specialist", "scratch", "9,000") in cells and ("specialist", "learned", "0") not in cells
    assert cells["first_order", "careful", "100"][0] == "4.000"
    assert cells["first_order", "careful", "100"][-2:] == ["0.125", "0.250"]


def test_the_study_command_prints_it(monkeypatch, capsys):
    """Table and gate in words; the gate as JSON."""
    monkeypatch.setattr(command, "_read", lambda *_arguments: results())
    assert main(["study", "few-shot", "--from-results"]) == 0
    told = capsys.readouterr().out
    assert "Held-out agents" in told and "gate: (specialist 7.500 - fedavg_pg zero-shot 4.000)" in told
    assert main(["study", "few-shot", "--from-results", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["gate"]
    assert found["passed"] and found["share"]["mean"] == 0.5
