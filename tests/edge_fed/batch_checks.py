"""Checks of local steps that need every batch, not only every trajectory; each raises AssertionError.

The references: the objective enumerated over all batches and differences of high order, dynamic
programming, the formula written out on sampled batches.
"""

import itertools

import msgspec
import numpy as np

from edge_fed import dp
from edge_fed.federated import local_update as local_update_module
from edge_fed.meta import BASELINES, VARIANTS
from edge_fed.meta.adaptation import adapt_batch
from edge_fed.meta.base import LocalStep
from edge_fed.meta.baselines import initial_state
from edge_fed.rollouts import Trajectories
from edge_fed.seeding import Purpose, streams
from tests.edge_fed.checks import FAMILIES, LARGE, NAVIGATION, differences, relative, task_and_params
from tests.edge_fed.tiny_batches import Script, Tiny, every

# ------------------------------------------------------------------------------- sg_mrl


def adapted_return(tiny: Tiny, alpha: float, m_in: int, baseline: str):
    """V as a function of theta: E over all D_in of J(theta + alpha g_in), from the definitions."""
    batches = np.array([batch for batch, _ in every(tiny, m_in)])  # [B, m]
    orders = np.array([count for _, count in every(tiny, m_in)])
    advantages = tiny.to_go[:, batches]  # [H+1, B, m]
    if baseline == "loo":
        advantages = (advantages - advantages.mean(axis=2, keepdims=True)) * m_in / (m_in - 1)
    elif baseline == "value":
        seen = [tiny.baseline(baseline).advantages(tiny.batch(tiny.theta, [i])) for i in tiny.all]
        advantages = np.concatenate(seen, axis=1)[:, batches]

    def objective(theta):
        g_in = np.einsum("hbm,hbmd->bd", advantages, tiny.scores(theta)[:, batches]) / m_in
        weights = orders * tiny.density(theta)[batches].prod(axis=1)
        return float(weights @ (tiny.density(theta + alpha * g_in) @ tiny.to_go[0]))

    return objective


def slope(function, x: np.ndarray, h: float = 0.01) -> np.ndarray:
    """Gradient by central differences of eighth order, ``[d]``."""
    stencil = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    return np.array(
        [
            sum(c * (function(x + k * h * e) - function(x - k * h * e)) for k, c in stencil.items()) / h
            for e in np.eye(x.size)
        ]
    )


def mean_direction(
    tiny: Tiny, variant: str, sizes: tuple[int, int], baseline: str, **algorithm
) -> np.ndarray:
    """E of the direction over all (D_in, D_out) of these sizes, ``[d]``."""
    total, mass = np.zeros_like(tiny.theta), 0.0
    for (d_in, orders_in), (d_out, orders_out) in itertools.product(*(every(tiny, m) for m in sizes)):
        script = Script(tiny, [d_in, d_out])
        task = tiny.task(script, variant=variant, **algorithm)
        step = LocalStep(lambda _purpose: None, tiny.baseline(baseline))
        estimate = VARIANTS[variant](task, tiny.theta, step)
        weight = orders_in * orders_out * script.density
        total += weight * estimate.direction
        mass += weight
    assert abs(mass - 1) < 1e-12
    return total


def sg_mrl_error(tiny: Tiny, m_in: int, baseline: str = "none", alpha: float = 1.5) -> float:
    """Max |E[direction] - grad V|."""
    expected = slope(adapted_return(tiny, alpha, m_in, baseline), tiny.theta)
    sizes = (m_in, 2 if baseline == "loo" else 1)
    found = mean_direction(tiny, "sg_mrl", sizes, baseline, inner_step_size=alpha)
    assert abs(expected).max() > 5e-2
    return float(abs(found - expected).max())


def check_sg_mrl_mean(tiny: Tiny, m_in: int, baseline: str = "none") -> None:
    """E[direction] = grad V to 1e-10."""
    assert sg_mrl_error(tiny, m_in, baseline) < 1e-10


def check_sg_mrl_without_step(tiny: Tiny, m_in: int) -> None:
    """At alpha = 0 the score term is there in every sample, and the mean is grad J."""
    found = mean_direction(tiny, "sg_mrl", (m_in, 1), "none", inner_step_size=0.0)
    assert abs(found - dp.gradient(tiny.model, tiny.theta)).max() < 1e-12


def check_sg_mrl_guard(baseline: str) -> None:
    """||direction - g_out|| = kappa ||g_out||, more with the guard off; g_out is first_order's direction."""

    def direction(variant, kappa):
        task, params = task_and_params(NAVIGATION, variant=variant, baseline=baseline, guard=kappa, **LARGE)
        step = LocalStep(streams(1, 3, 1, 0), BASELINES[baseline](task, initial_state(task)))
        return VARIANTS[variant](task, params, step).direction

    v = direction("first_order", "off")
    assert abs(relative(direction("sg_mrl", 0.1), v) - 0.1) < 1e-9
    assert relative(direction("sg_mrl", "off"), v) > 0.2


# ----------------------------------------------------------------------- inner gradient


def inner_gradient(tiny: Tiny, batch: Trajectories, memory, baseline: str = "none", momentum: float = 0.5):
    """g_in as a local step of training takes it."""
    task = tiny.task(inner_gradient="recursive", inner_momentum=momentum)
    return adapt_batch(
        task, batch.trace.params, batch, alpha=1.0, baseline=tiny.baseline(baseline), memory=memory
    ).gradient


def moments(tiny: Tiny, path: list[np.ndarray], momentum: float = 0.5) -> tuple[np.ndarray, float]:
    """Mean ``[d]`` and total variance of the last d_t along fixed parameters, batches of one trajectory."""
    mean, square = np.zeros_like(tiny.theta), 0.0
    q = [tiny.density(theta) for theta in path]
    for chosen in itertools.product(tiny.all, repeat=len(path)):
        memory: dict = {}
        for theta, column in zip(path, chosen, strict=True):
            found = inner_gradient(tiny, tiny.batch(theta, [column]), memory, momentum=momentum)
        weight = np.prod([q_t[column] for q_t, column in zip(q, chosen, strict=True)])
        mean += weight * found
        square += weight * float(found @ found)
    return mean, square - float(mean @ mean)


def beside(tiny: Tiny, distance: float) -> np.ndarray:
    """Parameters at this distance from theta."""
    direction = np.random.default_rng(11).normal(size=tiny.theta.size)
    return tiny.theta + distance * direction / np.linalg.norm(direction)


def check_recursive_mean() -> None:
    """E[d_1] over all pairs of trajectories is grad J(theta_1) to 1e-10, and E[d_2] grad J(theta_2)."""
    for tiny, places in ((Tiny(3, 2, 1), 2), (Tiny(1, 3, 0), 3)):
        path = [beside(tiny, t) for t in range(places)]
        mean, _ = moments(tiny, path, momentum=0.7)
        gradients = [dp.gradient(tiny.model, theta) for theta in path]
        assert abs(mean - gradients[-1]).max() < 1e-10
        assert abs(gradients[-1] - gradients[-2]).max() > 1e-2


def check_recursive_step(baseline: str, m: int) -> None:
    """Given ANY d_0: E[d_1] = grad J(theta_1) + (1 - eta) (d_0 - grad J(theta_0)), with a baseline too."""
    tiny, momentum = Tiny(2, 2, 1), 0.7
    old, new = tiny.theta, beside(tiny, 1.0)
    before = np.random.default_rng(5).normal(size=old.size)
    mean = np.zeros_like(old)
    for columns, orders in every(tiny, m):
        memory = {"inner_gradient": before, "inner_params": old}
        found = inner_gradient(tiny, tiny.batch(new, columns), memory, baseline, momentum)
        mean += orders * tiny.density(new)[columns].prod() * found
    kept = momentum * (before - dp.gradient(tiny.model, old))
    assert abs(mean - dp.gradient(tiny.model, new) - kept).max() < 1e-10
    assert abs(kept).max() > 1e-2


def check_recursive_variance() -> None:
    """By enumeration half the plain variance at theta_1 = theta_0, and less than plain nearby."""
    tiny = Tiny(3, 2, 1)
    for distance, low, high in ((0.0, 0.5 - 1e-9, 0.5 + 1e-9), (0.3, 0.4, 0.7)):
        path = [tiny.theta, beside(tiny, distance)]
        _, plain = moments(tiny, path[1:])
        _, recursive = moments(tiny, path)
        assert low < recursive / plain < high


def check_recursive_rounds(family: str) -> None:
    """A round starts plain, to the bit, whatever the round before left; its second step does not."""
    deltas = {}
    for kind in ("plain", "recursive"):
        for local_steps in (1, 2):
            task, params = task_and_params(
                FAMILIES[family], variant="exact", inner_gradient=kind, local_steps=local_steps, **LARGE
            )
            for round_ in (1, 2):
                update = local_update_module.local_update(task, params, {}, 0, round_, lambda _t: None)
                deltas[kind, local_steps, round_] = update.delta.tobytes()
    for round_ in (1, 2):
        assert deltas["plain", 1, round_] == deltas["recursive", 1, round_]
        assert deltas["plain", 2, round_] != deltas["recursive", 2, round_]


def check_recursive_composition(family: str, variant: str) -> None:
    """The second local step adapts with d_1, which is the formula written out by differences of log pi."""
    task, theta_0 = task_and_params(
        FAMILIES[family], variant=variant, inner_gradient="recursive", inner_momentum=0.7, **LARGE
    )
    theta_1 = theta_0 + np.random.default_rng(2).normal(scale=0.05, size=theta_0.size)
    sample, visited = task.sample, []

    class Recording:
        trajectories = 0

        def __call__(self, params, batches):
            visited.append(params)
            return sample(params, batches)

    task = msgspec.structs.replace(task, sample=Recording())
    memory: dict = {}
    for t, theta in enumerate((theta_0, theta_1)):
        step = LocalStep(streams(1, 3, 1, t), BASELINES["none"](task, {}), memory)
        VARIANTS[variant](task, theta, step)
    d_0, d_1 = ((visited[i + 1] - visited[i]) / task.settings.inner_step_size for i in (0, 2))

    (batch,) = sample(theta_1, [(LARGE["inner_batch"], streams(1, 3, 1, 1)(Purpose.INNER))])

    def log_pi(x):
        return task.policy.log_prob(x, batch.states, batch.actions)

    weights = np.exp(np.cumsum(log_pi(theta_0) - log_pi(theta_1), axis=0))
    to_go, weighted = (
        np.cumsum(r[::-1], axis=0)[::-1] / batch.size for r in (batch.rewards, weights * batch.rewards)
    )
    new = task.policy.score(batch.trace, to_go)
    old = differences(lambda x: (weighted * log_pi(x)).sum(), theta_0)
    assert relative(d_1, new + 0.7 * (d_0 - old)) < 1e-6
    assert relative(d_1, new) > 1e-2
