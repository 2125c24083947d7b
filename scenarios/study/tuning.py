"""Goals on which alpha is chosen: what can be wrong with them, found before anything runs."""

from collections.abc import Iterator

from edge_fed.config import Goals, overrides_by_goal, parse_goals
from edge_fed.envs import make_family
from edge_fed.errors import Fault
from scenarios.timeline import Scenario


def tuning_faults(scenario: Scenario, goals: Goals) -> Iterator[Fault]:
    """Validation goals are agents that neither trained nor are held out, or the choice leaks (methods.md 4).

    Args:
        scenario: Of an arm, checked.
        goals: Of the study's ``[tuning]``.
    """
    where = "tuning.goals"
    try:
        chosen = parse_goals(goals) if goals else ()
    except ValueError as error:
        yield Fault(where, str(error))
        return
    if not chosen:
        yield Fault(where, "is empty", 'name validation goals, e.g. goals = "9-10"')
        return
    family = make_family(scenario.environment)
    last = family.num_train + family.num_held_out - 1
    if chosen[-1] > last:
        yield Fault(where, f"{family.name} has no goal {chosen[-1]}", f"valid: 0 to {last}")
    held_out = parse_goals(scenario.onboarding.goals)
    trained = tuple(overrides_by_goal(scenario))
    for does, others in (("is held out", held_out), ("trains", trained)):
        if both := sorted(set(chosen) & set(others)):
            yield Fault(where, f"goal {both[0]} {does}", "choose another goal")
    if not held_out or not any(scenario.onboarding.m_adapt):
        yield Fault("tuning", "nothing would be adapted with it", "name [onboarding] goals, m_adapt above 0")
