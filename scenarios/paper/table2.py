"""Table 2 of the paper beside what the studies really run, setting by setting."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from edge_fed.config import overrides_by_goal
from scenarios.paper.published import TABLE_2, Setting
from scenarios.study.plan import Study
from scenarios.timeline import Scenario


class Compared(msgspec.Struct, frozen=True):
    """One cell of the table.

    Attributes:
        study: Which experiment.
        setting: Name of the key.
        published: The paper's values; empty: not used.
        ours: Those of the study's arms.
        verdict: Whether they are the same.
    """

    study: str
    setting: str
    published: Setting
    ours: Setting
    verdict: Literal["reproduced", "MISS"]


def compare_settings(studies: Iterable[Study]) -> list[Compared]:
    """Every published setting of these studies; a study that Table 2 does not have adds nothing."""
    found = []
    for study in studies:
        for setting, published in TABLE_2.get(study.name, {}).items():
            ours = values_of(study, setting)
            same = set(ours) == set(published)
            found.append(Compared(study.name, setting, published, ours, "reproduced" if same else "MISS"))
    return found


def values_of(study: Study, setting: str) -> Setting:
    """What the study's arms have, each value once, in their order."""
    if setting == "seeds":
        return (len(study.seeds),)
    read = READERS.get(setting) or _key(setting)
    scenarios = [arm.scenario for arm in study.arms]
    return tuple(dict.fromkeys(value for scenario in scenarios for value in read(scenario)))


def _hessian_batch(scenario: Scenario) -> Setting:
    """First-order accepts it and does not use it."""
    algorithm = scenario.algorithm
    return () if algorithm.variant == "first_order" else (algorithm.hessian_batch,)


READERS: Mapping[str, Callable[[Scenario], Setting]] = {
    "family": lambda scenario: (scenario.environment.family,),
    "horizon": lambda scenario: (scenario.environment.horizon,),
    "discount": lambda scenario: (scenario.environment.discount,),
    "agents": lambda scenario: (len(overrides_by_goal(scenario)),),
    "hessian_batch": _hessian_batch,
    "m_adapt": lambda scenario: scenario.onboarding.m_adapt,
    "scratch": lambda scenario: scenario.onboarding.scratch,
}


def _key(setting: str) -> Callable[[Scenario], Setting]:
    """Reads a key of the algorithm, or of the onboarding."""
    return lambda scenario: (
        getattr(scenario.algorithm if hasattr(scenario.algorithm, setting) else scenario.onboarding, setting),
    )


def grid(cells: Iterable[Compared]) -> tuple[list[str], list[list[str]]]:
    """Heads, and settings as rows with experiments as columns; where ours differs, the published follow."""
    by_place = {(cell.setting, cell.study): cell for cell in cells}
    settings = list(dict.fromkeys(setting for setting, _ in by_place))
    studies = list(dict.fromkeys(study for _, study in by_place))
    rows = [
        [setting, *(_in_words(by_place.get((setting, study))) for study in studies)] for setting in settings
    ]
    return ["setting", *studies], rows


def as_markdown(cells: Iterable[Compared]) -> str:
    """The grid as a table of Markdown."""
    heads, rows = grid(cells)
    return "".join("| " + " | ".join(row) + " |\n" for row in [heads, ["---"] * len(heads), *rows])


def _in_words(cell: Compared | None) -> str:
    if cell is None:
        return ""
    differs = f" (MISS, published: {shown(cell.published)})" if cell.verdict == "MISS" else ""
    return shown(cell.ours) + differs


def shown(values: Setting) -> str:
    """E.g. ``10, 50``; a dash for what is not used."""
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values) or "-"
