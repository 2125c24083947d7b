"""``python -m scenarios theory``: what the paper guarantees for a family and step sizes, and what not."""

import argparse
import json
import math
from typing import Any

import msgspec
from rich.console import Console

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.base import TabularModel
from edge_fed.errors import EdgeFedError
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.theory import NOT_COVERED
from edge_fed.theory.bounds import Batches, bias_star, exact_bounds, first_order_bounds, step_ceiling
from edge_fed.theory.constants import Constants, meta_gradient_bound, meta_smoothness, tabular_constants
from edge_fed.theory.rates import Condition, Schedule, beta_ceilings, corollary_1, first_order_floor, instance
from edge_fed.theory.regimes import crossing, regime
from scenarios.report import output, table_of

POSITIVE = ("epsilon", "outer_step_size", "local_steps", "rounds", "inner_batch", "hessian_batch",
            "outer_batch")  # fmt: skip
REGIMES = {
    "R1": "R1: no adaptation (alpha = 0); F is the objective of plain federated policy gradient",
    "R2": "R2: moderate adaptation (alpha <= 1 / (2 L_J)); all constants are near those of J",
    "outside": "outside R2 (alpha > 1 / (2 L_J)): the bounds still hold, and say next to nothing",
}
CONDITIONS = {
    "i": "(i) smoothness",
    "ii": "(ii) drift",
    "iii": "(iii) bias",
    "iv": "(iv) noise",
    "rounds": "rounds",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The flags; the defaults are the paper's tabular experiment."""
    command.add_argument("--family", default="gridworld", metavar="NAME", help="finite; default gridworld")
    command.add_argument("--alpha", type=float, default=0.5, metavar="X", help="inner step size; default 0.5")
    command.add_argument("--epsilon", type=float, default=1e-2, metavar="X",
                         help="wanted bound of E||grad F||^2; default 1e-2")  # fmt: skip
    command.add_argument("--horizon", type=int, default=15, metavar="H", help="H+1 actions; default 15")
    command.add_argument("--discount", type=float, default=0.9, metavar="X", help="below 1; default 0.9")
    command.add_argument("--outer-step-size", type=float, default=0.3, metavar="X", help="beta; default 0.3")
    command.add_argument("--local-steps", type=int, default=5, metavar="N", help="tau; default 5")
    command.add_argument("--rounds", type=int, default=80, metavar="N", help="K; default 80")
    for name in ("inner", "hessian", "outer"):
        command.add_argument(
            f"--{name}-batch", type=int, default=10, metavar="N", help="trajectories; default 10"
        )


def theory(options: argparse.Namespace) -> int:
    """Prints the constants, the regime, the conditions of Corollary 1 and what is not covered.

    Raises:
        ProgramError: A flag has a value that the theory has no statement for.
    """
    try:
        _require_positive(options)
        found = findings(options, _models(options))
    except (EdgeFedError, ValueError, TypeError) as error:
        raise _usage(str(error)) from None
    except ArithmeticError:
        raise _usage("these values lead to numbers beyond floating point") from None
    if options.json:
        print(json.dumps({"success": True, **found}, allow_nan=False))
    else:
        _print(found, output())
    return 0


def findings(options: argparse.Namespace, models: list[TabularModel]) -> dict[str, Any]:
    """Everything that is printed, as plain values; ``models`` are the training agents'."""
    c, alpha, epsilon, n = tabular_constants(models), options.alpha, options.epsilon, len(models)
    batches = Batches(options.inner_batch, options.hessian_batch, options.outer_batch)
    run = Schedule(options.outer_step_size, options.local_steps, options.rounds, n)
    direction, smoothness = exact_bounds(c, alpha, batches), meta_smoothness(c, alpha)
    ceilings = beta_ceilings(direction, smoothness, run.local_steps, n, epsilon)
    conditions = corollary_1(c, alpha, batches, run, epsilon)
    enough = instance(c, alpha, epsilon, n, batches.m_h, batches.m_out)
    float(enough.trajectories)  # a count that no number of JSON readers holds is refused like an infinite one
    return {
        "family": options.family,
        "agents": n,
        "alpha": alpha,
        "epsilon": epsilon,
        "constants": _constants(c, alpha),
        "regime": msgspec.to_builtins(regime(c, alpha)),
        "bounds": {
            "exact": {**msgspec.to_builtins(direction), "bias_star": bias_star(c, alpha, batches.m_in)},
            "first_order": {
                **msgspec.to_builtins(first_order_bounds(c, alpha, batches)),
                "floor": first_order_floor(c, alpha, batches.m_in),
            },
        },
        "binds": min(ceilings, key=ceilings.__getitem__),
        "largest_outer_step_size": min(ceilings.values()),
        "drift_outweighs_noise_above": crossing(direction, smoothness, run.local_steps, n),
        "conditions": [_condition(condition) for condition in conditions],
        "instance": msgspec.to_builtins(enough),
        "not_covered": [
            *_steps_not_covered(alpha, regime(c, alpha).ceiling, smoothness, run.beta),
            *NOT_COVERED,
        ],
    }


def _steps_not_covered(alpha: float, ceiling: float, smoothness: float, beta: float) -> list[str]:
    """Which step sizes the theory says nothing about, and whether these are among them."""
    limit = step_ceiling(smoothness)
    inner = (
        f"step sizes outside alpha <= 1 / (2 L_J) = {ceiling:.3g}: small grad F, large grad J_i are possible"
    )
    outer = f"step sizes outside beta <= 1 / (6 L_F) = {limit:.3g}: Lemma 5 and Theorem 1 need it"
    return [
        inner + (f" (alpha = {alpha:g} is outside)" if alpha > ceiling else ""),
        outer + (f" (beta = {beta:g} is outside)" if beta > limit else ""),
    ]


def _constants(c: Constants, alpha: float) -> dict[str, float]:
    names = ("Rbar", "G_J", "L_J", "M_bar", "Lambda_bar", "rho_J")
    return {
        "G": c.policy.G,
        "M": c.policy.M,
        "Lambda": c.policy.Lambda,
        **{name: getattr(c, name) for name in names},
        "G_F": meta_gradient_bound(c, alpha),
        "L_F": meta_smoothness(c, alpha),
    }


def _condition(condition: Condition) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(condition)
    return {**plain, "holds": condition.holds}


def _models(options: argparse.Namespace) -> list[TabularModel]:
    """The training agents' MDPs; refuses a family whose policy has no constants."""
    settings = EnvironmentConfig(family=options.family, horizon=options.horizon, discount=options.discount)
    family = make_family(settings)
    models = [family.model(goal) for goal in range(family.num_train)]
    finite = [model for model in models if model is not None]
    if len(finite) < len(models):
        raise ValueError(
            f"family {options.family!r} is not finite, and policies for it (mlp; gaussian, with a learned "
            "log-std above all) have unbounded scores: Assumption 2 gives no constants"
        )
    return finite


def _require_positive(options: argparse.Namespace) -> None:
    for name in POSITIVE:
        value = getattr(options, name)
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"--{name.replace('_', '-')} {value}: must be positive and finite")


def _usage(message: str) -> ProgramError:
    return ProgramError(ExitCode.USAGE, message, "see python -m scenarios theory --help")


def _print(found: dict[str, Any], console: Console) -> None:
    rows = [(name, f"{value:.4g}") for name, value in found["constants"].items()]
    title = f"Constants of {found['family']}, alpha = {found['alpha']:g}"
    console.print(table_of(title, ("", "value"), rows))
    limits = found["regime"]
    _say(console, REGIMES[limits["name"]])
    larger = limits["dominant"].replace("_", " ")
    _say(
        console,
        f"1 / (2 L_J) = {limits['ceiling']:.3g}, alpha_dagger = {limits['alpha_dagger']:.3g}; "
        f"the larger part of L_F is of {larger}\n",
    )
    _print_conditions(found, console)
    _say(console, "Not covered by the theory:")
    for line in found["not_covered"]:
        _say(console, f"- {line}")


def _print_conditions(found: dict[str, Any], console: Console) -> None:
    rows = []
    for condition in found["conditions"]:
        run = f"{condition['quantity']} = {condition['value']:.3g}"
        needs = f"{condition['relation']} {condition['limit']:.3g}"
        rows.append((CONDITIONS[condition["name"]], run, needs, "met" if condition["holds"] else "unmet"))
    title = f"Corollary 1, epsilon = {found['epsilon']:g}"
    console.print(table_of(title, ("condition", "run", "needs", ""), rows))
    largest = f"beta <= {found['largest_outer_step_size']:.3g}"
    _say(console, f"binding for beta: {CONDITIONS[found['binds']]}, {largest}")
    enough = found["instance"]
    schedule, batches = enough["schedule"], enough["batches"]
    _say(
        console,
        f"an instance that meets all: beta = {schedule['beta']:.3g}, tau = {schedule['local_steps']:.3g}, "
        f"K = {schedule['rounds']:.3g}, m_in = {batches['m_in']:.3g}: "
        f"{enough['trajectories']:.3g} trajectories per agent",
    )
    floor = found["bounds"]["first_order"]["floor"]
    _say(console, f"the floor of first order: {floor:.3g} (Corollary 2)\n")


def _say(console: Console, line: str) -> None:
    console.print(line, soft_wrap=True, highlight=False, markup=False)
