"""The time left of many cells: said when it means something, and never larger without a reason."""

import pytest

from scenarios.study import progress
from scenarios.study.progress import FEW, Estimate, open_bar


def test_an_estimate_needs_a_few_steps() -> None:
    """Ten equal steps of 6 s: nothing before the third, then the rest at their pace."""
    estimate = Estimate(0.0)
    assert estimate.left_s(0.0, 0.0) is None
    found = [estimate.left_s(step / 10, 6.0 * step) for step in range(1, 11)]
    assert found[: FEW - 1] == [None] * (FEW - 1)
    assert found[FEW - 1 :] == pytest.approx([42, 36, 30, 24, 18, 12, 6, None])


def test_between_two_steps_it_counts_down() -> None:
    """Lines that only say what runs do not make the estimate grow; one that ran out is not shown."""
    estimate = Estimate(100.0)
    for step in range(4):
        estimate.left_s(step / 4, 100.0 + 10 * step)
    assert [estimate.left_s(0.75, 100.0 + now) for now in (30, 33, 39)] == pytest.approx([10, 7, 1])
    assert estimate.left_s(0.75, 141.0) is None
    assert estimate.left_s(1.0, 145.0) is None


def test_what_was_done_before_does_not_count_as_quick() -> None:
    """Half of the cells were there: the pace is that of the others."""
    estimate = Estimate(0.0)
    found = [estimate.left_s(fraction, now) for now, fraction in enumerate((0.5, 0.6, 0.7, 0.8))]
    assert found[-1] == pytest.approx(2.0)


def test_lines_show_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on a terminal, beside what was done last."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with open_bar("faults") as report:
        report(0.0, "20 runs")
        for step in range(1, 5):
            now[0] = 5.0 * step
            report(step / 20, f"fault {step}")
    assert capsys.readouterr().err.splitlines() == [
        "faults:   0% 20 runs",
        "faults:   5% fault 1",
        "faults:  10% fault 2",
        "faults:  15% fault 3, about 85 s left",
        "faults:  20% fault 4, about 80 s left",
    ]


def test_a_terminal_shows_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the bar."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    with open_bar("faults") as report:
        for step in range(4):
            now[0] = 5.0 * step
            report(step / 4, f"fault {step}")
    shown = capsys.readouterr().err
    assert "fault 3" in shown
    assert "about 5 s left" in shown
