"""Lines about what is slow."""

import pytest

from scenarios import patience


def test_only_what_is_slow_speaks_and_not_too_often(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun at 10 s: nothing at 10.9, a line at 11, none at 11.5, the next at 12; all on standard error."""
    times = iter([10.0, 10.9, 11.0, 11.5, 12.0])
    monkeypatch.setattr(patience.time, "monotonic", times.__next__)
    report = patience.only_if_slow("work")
    for text in ("a", "b", "c", "d"):
        report(text)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "work: b\nwork: d\n")
