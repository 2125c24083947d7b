"""Which of many equal events get a line."""

from server.quiet import FIRST_S, LONGEST_S, Quiet


def lines(times: list[float], quiet: Quiet | None = None) -> list[int]:
    """The counts of the lines."""
    quiet = quiet or Quiet()
    return [count for now in times if (count := quiet.heard("kind", now)) is not None]


def test_the_first_is_said_at_once() -> None:
    """Each kind for itself."""
    quiet = Quiet()
    assert quiet.heard("a", 5.0) == quiet.heard("b", 5.0) == 1


def test_a_flood_gets_few_lines_and_loses_no_count() -> None:
    """A hundred a second for an hour: a dozen lines; their counts are those of the events before."""
    found = lines([at / 100 for at in range(360_000)])
    assert len(found) < 15
    assert found[:3] == [1, 100 * int(FIRST_S), 200 * int(FIRST_S)]


def test_after_a_long_calm_it_is_loud_again() -> None:
    """The pause starts anew."""
    quiet = Quiet()
    lines([at / 10 for at in range(10_000)], quiet)
    calm = 1000.0 + 3 * LONGEST_S
    assert quiet.heard("kind", calm) is not None  # what came before is still counted in it
    assert quiet.heard("kind", calm + 3 * LONGEST_S) == 1
    assert quiet.heard("kind", calm + 3 * LONGEST_S + FIRST_S) == 1
