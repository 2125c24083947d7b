"""Tables of results that look like the paper's: means as published, seeds around them."""

from collections.abc import Iterable, Iterator, Mapping

from scenarios.paper.measured import Planned
from scenarios.paper.published import ALPHAS, CURVATURE_BATCHES, M_ADAPT, SCRATCH, UNIFORM_FLOOR, VARIANTS
from scenarios.study.results import Measurement, Results

SEEDS = range(10)
F_LAST = dict(zip(VARIANTS, (0.79, 0.73, 0.68), strict=True))
TRAJECTORIES = {"exact": 12_000, "first_order": 8_000, "fedavg_pg": 12_000}
AT_ALPHA_3 = dict(zip(VARIANTS, (0.92, 0.87, 0.78), strict=True))
LEARNED = {0: (1.53, 0.75), 20: (1.1, 0.6), 50: (1.4, 0.76), 100: (1.52, 0.80), 200: (1.94, 0.86),
           500: (2.0, 0.87)}  # fmt: skip
FROM_SCRATCH = {20: (0.22, 0.15), 100: (0.25, 0.18), 500: (0.5, 0.37), 2000: (1.7, 0.88), 4000: (2.0, 0.9)}


def table(study: str, cells: Iterable[tuple[str, str, int, int, str, Iterable[float]]]) -> Results:
    """(arm, policy, m, round, outcome, one value per seed) as a table."""
    rows = [
        Measurement(arm, seed, "0" * 12, round_, policy, m, outcome, value)
        for arm, policy, m, round_, outcome, values in cells
        for seed, value in enumerate(values)
    ]
    return Results(f"{study}.csv", tuple(rows))


def planned(results: Results, seeds: Iterable[int] = SEEDS) -> Planned:
    """The plan of a whole table: its newest round of each arm is the last one."""
    rounds = {arm: max(row.round for row in results.rows if row.arm == arm) for arm in results.arms}
    return Planned(tuple(seeds), rounds)


def around(mean: float, spread: float = 0.01) -> list[float]:
    """Ten values of this mean, evenly spaced."""
    return [mean + spread * (2 * seed - 9) / 9 for seed in SEEDS]


def personalization() -> Results:
    """F rises linearly from 0.32 in round 0; exact as the paper reports it at 8000 trajectories."""
    cells = []
    for arm, last in F_LAST.items():
        for number in range(0, 81, 5):
            mean = 0.32 + (last - 0.32) * number / 80
            if arm == "exact" and number:  # 0.71 at round 53.3
                mean = 0.52 + 0.19 * number / 53.3 if number <= 50 else 0.7 + 0.09 * (number - 50) / 30
            cells.append((arm, "shared", 0, number, "meta_objective", around(mean)))
            start = [UNIFORM_FLOOR] * 10
            before = around(UNIFORM_FLOOR + 0.27 * number / 80)
            cells.append((arm, "shared", 0, number, "expected_return", before if number else start))
        for outcome, factor in (("train_trajectories", 8), ("train_trajectories_per_agent", 1)):
            cells.append((arm, "run", 0, 80, outcome, [TRAJECTORIES[arm] * factor] * 10))
    return table("personalization", cells)


def alpha_sweep() -> Results:
    """F rises linearly in alpha."""
    return table(
        "alpha-sweep",
        [
            (f"{arm}/inner_step_size={alpha:g}", "shared", 0, 80, "meta_objective",
             around(0.485 + (last - 0.485) * alpha / 3))
            for arm, last in AT_ALPHA_3.items()
            for alpha in ALPHAS
        ],
    )  # fmt: skip


def _bimodal(m_h: int) -> list[float]:
    if m_h < 500:
        return around(0.2, 0.05)
    return [0.3] * 4 + [0.4] * 4 + [1.6, 1.7] if m_h == 500 else [0.3, 0.5, 0.8, 0.9] + [1.55] * 3 + [1.8] * 3


def curvature_batch() -> Results:
    """Collapsed up to 200, bimodal from 500 on."""
    cells = [
        (f"exact/hessian_batch={m_h}", "shared", 0, 150, "meta_objective", _bimodal(m_h))
        for m_h in CURVATURE_BATCHES
    ]
    return table(
        "curvature-batch", [*cells, ("fedavg_pg", "shared", 0, 150, "meta_objective", around(1.73, 0.3))]
    )


def beyond(batches: Iterable[int] = (10, 100)) -> Results:
    """Every arm of the study beyond the paper, at some batches only."""
    cells = []
    for m_h in batches:
        for label, mean in (("causal", 0.2), ("baseline", 0.4), ("guarded", 2.1)):
            cells.append((f"{label}/hessian_batch={m_h}", "shared", 0, 150, "meta_objective", around(mean)))
        cells.append((f"first_order/outer_batch={10 + m_h}", "shared", 0, 150, "meta_objective", around(2.2)))
    return table("curvature-batch-beyond", cells)


def _new_agents(arm: str, policy: str, values: dict[int, tuple[float, float]]) -> Iterator[tuple]:
    for m, (mean, success) in values.items():
        yield arm, policy, m, 150, "return", around(mean, 0.1)
        yield arm, policy, m, 150, "success", around(success, 0.03)


def few_shot() -> Results:
    """Learned, from scratch, untrained."""
    arm = "first_order"
    cells = [*_new_agents(arm, "learned", LEARNED), *_new_agents(arm, "scratch", FROM_SCRATCH)]
    cells += _new_agents(arm, "random", {0: (0.27, 0.14)})
    cells.append((arm, "run", 0, 150, "train_trajectories", [90_000] * 10))
    cells.append((arm, "run", 0, 150, "train_trajectories_per_agent", [15_000] * 10))
    return table("few-shot", cells)


def control(arms: Iterable[str] = ("first_order", "exact", "fedavg_pg", "fedavg_pg-value")) -> Results:
    """Held-out rows of several arms, with the run's and with a tuned alpha."""
    cells: list[tuple] = []
    for index, arm in enumerate(arms):
        shifted = {m: (mean + 0.1 * index, success) for m, (mean, success) in LEARNED.items()}
        cells += _new_agents(arm, "learned", shifted)
        cells += _new_agents(arm, "tuned", {m: pair for m, pair in shifted.items() if m})
    return table("control", cells)


def claims(study: str, means: Mapping[str, float]) -> Results:
    """A study of preregistered claims, its arms in this order."""
    return table(
        study, [(arm, "shared", 0, 150, "meta_objective", around(mean, 0.3)) for arm, mean in means.items()]
    )


def all_tables() -> dict[str, Results]:
    """One per study."""
    tables = {
        "personalization": personalization(),
        "alpha-sweep": alpha_sweep(),
        "curvature-batch": curvature_batch(),
        "curvature-batch-beyond": beyond(),
        "few-shot": few_shot(),
        "control": control(),
        "curvature-claims": claims(
            "curvature-claims", {"guarded": 2.1, "first_order": 2.2, "placebo-random": 1.9}
        ),
        "grid-claims": claims("grid-claims", {"first_order": 0.9, "exact": 0.92}),
        "thermostats": newcomers("thermostats"),
        "cartpole": newcomers("cartpole"),
        "pendulum": newcomers("pendulum"),
    }
    assert set(LEARNED) == set(M_ADAPT) and set(FROM_SCRATCH) == set(SCRATCH)
    return tables


def without(results: Results, arm: str) -> Results:
    """The table as if one arm had not run."""
    return Results(results.source, tuple(row for row in results.rows if row.arm != arm))


def newcomers(study: str, specialist: float = 23.0) -> Results:
    """Held-out rows of three methods, zero-shot 21 and 22 after a step of any kind, beside both ends."""
    cells: list[tuple] = []
    for arm in VARIANTS:
        cells.append((arm, "learned", 0, 30, "return", around(21)))
        cells += [(arm, policy, 100, 30, "return", around(22)) for policy in ("learned", "careful", "tuned")]
    cells.append(("scratch", "scratch", 100, 0, "return", around(21.5)))
    cells.append(("specialist", "scratch", 9000, 0, "return", around(specialist)))
    cells.append(("uniform", "learned", 0, 0, "return", around(19)))
    return table(study, cells)
