"""Table 2: read from the studies' arms, not copied from the paper."""

import msgspec

from scenarios.paper.published import TABLE_2
from scenarios.paper.table2 import as_markdown, compare_settings, values_of
from scenarios.study.plan import Study, load_study


def changed(study: Study, **algorithm: object) -> Study:
    """The study with other settings in its first arm."""
    arm = study.arms[0]
    settings = msgspec.structs.replace(arm.scenario.algorithm, **algorithm)
    other = msgspec.structs.replace(arm, scenario=msgspec.structs.replace(arm.scenario, algorithm=settings))
    return msgspec.structs.replace(study, arms=(other, *study.arms[1:]))


def test_the_studies_run_what_the_paper_says() -> None:
    """Every setting of Table 2, its caption and section C, in all four experiments."""
    cells = compare_settings(map(load_study, TABLE_2))
    assert [cell for cell in cells if cell.verdict != "reproduced"] == []
    assert len(cells) == sum(map(len, TABLE_2.values()))


def test_first_order_uses_no_curvature_batch() -> None:
    """It accepts one and ignores it: the paper prints a dash."""
    study = load_study("few-shot")
    assert values_of(study, "hessian_batch") == ()
    assert values_of(changed(study, variant="exact"), "hessian_batch") == (10,)


def test_another_setting_is_a_miss_that_shows_both() -> None:
    """One arm with 79 rounds is enough; a study beyond the paper adds nothing."""
    study = changed(load_study("personalization"), rounds=79)
    cells = compare_settings([study, load_study("control")])
    (missed,) = [cell for cell in cells if cell.verdict == "MISS"]
    assert (missed.setting, missed.published, missed.ours) == ("rounds", (80,), (79, 80))
    text = as_markdown(cells)
    assert "| rounds | 79, 80 (MISS, published: 80) |" in text
    assert "| hessian_batch | 10 |" in text
