"""What is wrong with the family, the agents' goals and the policy of a run."""

from collections.abc import Iterator
from typing import Any, Protocol

from edge_fed.config import Goals as GoalsText
from edge_fed.config import Overrides, RunConfig, parse_goals
from edge_fed.envs import make_family
from edge_fed.envs.base import Family
from edge_fed.errors import Fault, UnknownGoal, UnknownName
from edge_fed.policies import ON_ANY_SPACES, POLICIES, make_policy
from edge_fed.spaces import Spaces
from edge_fed.user_code import UserCodeError, is_user_code

MAX_AGENTS = 10_000


class Goals(Protocol):
    """What goals are checked against: a family of environments, or the users of a data set."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def num_train(self) -> int:
        """Goals 0..num_train-1 train."""
        ...

    @property
    def num_held_out(self) -> int:
        """These many follow."""
        ...

    def make(self, goal: int, args: dict[str, Any] | None = None) -> Any:
        """Tries whether a goal can be built with an agent's own arguments."""
        ...


def family_of(config: RunConfig, faults: list[Fault]) -> Family | None:
    """The family; None if there is none of that name, or if its arguments are wrong (a fault)."""
    try:
        return make_family(config.environment)
    except UnknownName:  # reported by `name_faults`
        return None
    except UserCodeError as error:
        if not is_user_code(config.environment.family):  # else it is, too
            faults.append(Fault("environment.args", str(error)))
        return None
    except (ValueError, TypeError) as error:
        faults.append(Fault("environment.args", str(error)))
        return None


def planned_agents(config: RunConfig, family: Goals | None, faults: list[Fault]) -> dict[int, Overrides]:
    """The planned agents; goals that are wrong, doubled or cannot be built become faults."""
    planned: dict[int, Overrides] = {}
    tables: dict[int, int] = {}
    for index, table in enumerate(config.agents):
        path = f"agents.{index}.goals"
        if table.goals == ():
            faults.append(Fault(path, "is empty", 'write e.g. goals = "0-5", or leave the table out'))
        for goal in goals_of(table.goals, path, family, faults):
            if goal in tables:
                faults.append(
                    Fault(path, f"goal {goal} is also in agents.{tables[goal]}.goals", "one agent per goal")
                )
            planned[goal] = table
            tables[goal] = index
        if table.args and family is not None:
            mine = [goal for goal, where in tables.items() if where == index]
            faults.extend(_built(family, mine, table.args, f"agents.{index}.args"))
    if not config.agents:
        faults.append(Fault("agents", "nobody trains", 'add [[agents]] with goals = "0-5"'))
    elif len(planned) > MAX_AGENTS:
        faults.append(Fault("agents", f"{len(planned)} agents, at most {MAX_AGENTS} fit one run"))
    return planned


def goals_of(goals: GoalsText, path: str, family: Goals | None, faults: list[Fault]) -> tuple[int, ...]:
    """Parses goals; what is no goal, or none of the family, becomes a fault at ``path``."""
    try:
        found = parse_goals(goals)
    except ValueError as error:
        faults.append(Fault(path, str(error)))
        return ()
    if family is not None:
        last = family.num_train + family.num_held_out - 1
        wrong = [goal for goal in found if goal > last]
        if wrong:
            many = f"{family.name} has no goal {wrong[0]}" + (
                f" (nor {len(wrong) - 1} more)" if wrong[1:] else ""
            )
            held_out = f", {family.num_train} to {last} held out" if family.num_held_out else ""
            faults.append(
                Fault(path, many, f"valid: 0 to {last}; 0 to {family.num_train - 1} train{held_out}")
            )
            return ()
    return found


def _built(family: Goals, goals: list[int], args: dict[str, Any], path: str) -> Iterator[Fault]:
    """Builds one environment with an agent's own arguments; equal arguments fail alike."""
    try:
        for goal in goals[:1]:
            family.make(goal, args)
    except (ValueError, TypeError, UnknownGoal) as error:
        yield Fault(path, str(error))


def policy_faults(config: RunConfig, family: Family) -> Iterator[Fault]:
    """A policy that cannot work on the family's spaces, or wrong arguments of one that can."""
    spaces, name = family.make(0).spaces, config.policy.name
    if not _fits(name, spaces):
        fitting = ", ".join(repr(other) for other in POLICIES if _fits(other, spaces))
        message = f"policy {name!r} cannot work on the spaces of {family.name!r}: {_words(spaces)}"
        yield Fault("policy.name", message, f"choose {fitting}")
        return
    try:
        make_policy(config.policy, spaces)
    except (ValueError, TypeError) as error:
        yield Fault("policy.args", str(error))


def _words(spaces: Spaces) -> str:
    seen = f"observations of shape {spaces.observation_shape}"
    box = f"actions in a box of {len(spaces.action_low)}"
    return (
        f"{seen if spaces.num_states is None else f'{spaces.num_states} states'}, "
        f"{box if spaces.num_actions is None else f'{spaces.num_actions} actions'}"
    )


def _fits(name: str, spaces: Spaces) -> bool:
    """Whether the policy with its default arguments can work on these spaces."""
    if name in ON_ANY_SPACES or is_user_code(name):
        return True
    try:
        POLICIES[name](spaces, {})
    except (ValueError, TypeError):
        return False
    return True
