"""What is wrong with waiting, keeping, private noise and onboarding of a run."""

import math
from collections.abc import Iterator

from edge_fed.config import RunConfig, max_norm, overrides_by_goal, parse_goals
from edge_fed.errors import Fault
from edge_fed.federated.cohort import cohort_size
from edge_fed.validation.fleet import Goals, goals_of

LEAST_NOISE = 0.01


def federation_faults(config: RunConfig, at_start: int, planned: int) -> Iterator[Fault]:
    """Numbers of agents that cannot be reached, and times and checkpoints that do not go together."""
    federation = config.federation
    if federation.quorum is not None and planned and federation.quorum > at_start:
        later = f" ({planned - at_start} more join later)" if planned > at_start else ""
        yield Fault(
            "federation.quorum",
            f"is {federation.quorum}, but {at_start} agents are planned at the start{later}",
            f"give it at most {at_start}",
        )
    asked = cohort_size(at_start, config.algorithm.participation)
    if federation.min_updates is not None and planned and federation.min_updates > asked:
        yield Fault(
            "federation.min_updates",
            f"is {federation.min_updates}, but a round asks {asked} of "
            f"{at_start} agents, so that every round would be skipped",
            f"give it at most {asked}",
        )
    if federation.keep_best and not federation.keep_checkpoints:
        yield Fault(
            "federation.keep_best",
            f"is {federation.keep_best}, but keep_checkpoints = 0 keeps every checkpoint",
            "give keep_checkpoints at least 1, or leave keep_best out",
        )
    if federation.lease_s <= federation.heartbeat_s:
        yield Fault(
            "federation.lease_s",
            f"is {federation.lease_s:g}, not longer than heartbeat_s = "
            f"{federation.heartbeat_s:g}: every agent would be lost",
            "give it several heartbeats",
        )


def privacy_faults(config: RunConfig) -> Iterator[Fault]:
    """Noise without a stated guarantee, or with what it forbids."""
    privacy = config.privacy
    if privacy.noisy and privacy.clip_norm == "off":
        yield Fault(
            "privacy.noise_multiplier",
            f"is {privacy.noise_multiplier:g}, but without a clip norm one update can say anything, "
            "whatever the noise",
            "give privacy.clip_norm a number, about the norm of an update",
        )
    if 0 < privacy.noise_multiplier < LEAST_NOISE:
        yield Fault(
            "privacy.noise_multiplier",
            f"is {privacy.noise_multiplier:g}: below {LEAST_NOISE:g} the guarantee of a single update is "
            "an epsilon above 20,000, which is none",
            "give it 0, or about 1 and more",
        )
    if privacy.noisy and config.federation.keep_best:
        yield Fault(
            "federation.keep_best",
            f"is {config.federation.keep_best}, but agents that add private noise send no evaluations",
            "leave it out",
        )


def noise_faults(config: RunConfig, dimension: int) -> Iterator[Fault]:
    """Noise that is longer than what the server accepts: |z C N(0, I_d)| is about z C sqrt(d)."""
    privacy, bound = config.privacy, max_norm(config.federation)
    if not privacy.noisy or privacy.clip_norm == "off":
        return
    noise = privacy.noise_multiplier * privacy.clip_norm * math.sqrt(dimension)
    if bound < noise + privacy.clip_norm:
        yield Fault(
            "federation.max_update_norm",
            f"is {bound:g}, but private noise alone has a norm of about {noise:.3g}: honest updates would be "
            "refused, and their agents quarantined",
            f"give it at least {1.2 * noise + privacy.clip_norm:.3g}, or leave it out",
        )


def onboarding_lines(config: RunConfig, num_train: int, num_held_out: int) -> list[str]:
    """What is right and perhaps not meant: newcomers with goals of training, while no held-out goal is used.

    Args:
        config: Settings without faults.
        num_train: Of the task: goals below it are for training.
        num_held_out: How many follow.
    """
    wanted, trained = parse_goals(config.onboarding.goals), overrides_by_goal(config)
    unseen = [goal for goal in wanted if goal not in trained]
    if not unseen or not num_held_out or max(unseen) >= num_train:
        return []
    last = num_train + num_held_out - 1
    held_out = f"{num_train} to {last}" if num_held_out > 1 else f"{last}"
    return [
        f"onboarding.goals has goals of training that no agent trains ({', '.join(map(str, unseen[:12]))}), "
        f"and none that is held out ({held_out})"
    ]


def onboarding_faults(config: RunConfig, family: Goals | None) -> Iterator[Fault]:
    """Goals and budgets that onboarders cannot measure."""
    onboarding = config.onboarding
    faults: list[Fault] = []
    goals = goals_of(onboarding.goals, "onboarding.goals", family, faults)
    yield from faults
    for name in ("m_adapt", "scratch"):
        budgets = getattr(onboarding, name)
        if len(set(budgets)) != len(budgets):
            yield Fault(f"onboarding.{name}", "names a number of trajectories twice")
    baseline = config.algorithm.adapt_baseline or getattr(family, "adapt_baseline", None)
    for index, budget in enumerate(onboarding.m_adapt):
        if budget == 1 and baseline == "loo":
            message = "is 1, but adapt_baseline 'loo' compares each trajectory with the others"
            yield Fault(f"onboarding.m_adapt.{index}", message, "give it 0 or at least 2")
    for index, budget in enumerate(onboarding.scratch):
        if budget % onboarding.scratch_batch:
            message = f"is {budget}, no multiple of scratch_batch = {onboarding.scratch_batch}"
            yield Fault(f"onboarding.scratch.{index}", message)
    if goals and not onboarding.m_adapt:
        message = "is empty, so that the onboarders have nothing to measure"
        yield Fault("onboarding.m_adapt", message, "e.g. m_adapt = [0, 100]")
