"""The table of a study's arms."""

from rich.console import Console

from scenarios.study.arms_picture import Shown
from scenarios.study.arms_table import arms_table
from scenarios.study.results import Measurement, Results


def results(*rows: tuple[str, int, str, float]) -> Results:
    """A table of (arm, seed, policy, value) at round 3, and at round 0 something else."""
    early = [
        Measurement(arm, seed, "c", 0, policy, 0, "meta_objective", -1.0) for arm, seed, policy, _ in rows
    ]
    late = [Measurement(arm, seed, "c", 3, policy, 0, "meta_objective", v) for arm, seed, policy, v in rows]
    return Results("x.csv", (*early, *late))


def printed(found: Results, shown: Shown | None = None) -> list[list[str]]:
    """The cells of its lines, from the first arm on."""
    table = arms_table(found, shown or Shown())
    assert table is not None
    console = Console(width=100)
    with console.capture() as text:
        console.print(table)
    return [line.split() for line in text.get().splitlines() if line.strip()][3:]


def test_mean_and_interval_of_the_newest_round() -> None:
    """1, 2, 3: mean 2, t interval 2 +- 4.303 / sqrt(3); a single seed has none."""
    found = results(
        ("a", 0, "shared", 1.0), ("a", 1, "shared", 2.0), ("a", 2, "shared", 3.0), ("b", 0, "shared", 5.0)
    )
    first, second = printed(found)
    assert first == ["a", "shared", "3", "2.000", "-0.484", "to", "4.484"]
    assert second == ["b", "shared", "1", "5.000", "one", "seed"]


def test_where_some_attack_the_honest_are_shown() -> None:
    """Of an arm without attackers all are; an outcome that no arm has gives no table."""
    found = results(("a", 0, "shared", 1.0), ("a", 0, "honest", 2.0), ("b", 0, "shared", 3.0))
    assert [line[:4] for line in printed(found)] == [
        ["a", "honest", "1", "2.000"],
        ["b", "shared", "1", "3.000"],
    ]
    assert arms_table(found, Shown(outcome="success")) is None
