"""Hypothesis on settings: trees of right and wrong keys and values, as TOML, through the targets."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_fed.config import Agents, Algorithm, EnvironmentConfig, Federation, Onboarding
from scenarios.actions import ACTIONS
from tests.fuzz.targets import settings as target

words = st.sampled_from(
    [
        "gridworld",
        "navigation",
        "softmax",
        "mlp",
        "exact",
        "loo",
        "off",
        "0-2",
        "0-99",
        "server",
        "",
        "\u00b2",
    ]
) | st.text(max_size=5)
numbers = st.integers(-2, 12) | st.sampled_from([2**31, 2**63 - 1, 2**63]) | st.floats(width=32)
values: st.SearchStrategy[Any] = st.recursive(
    words | numbers | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abs", max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)


def table(kind: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """Some keys of a record, and perhaps one that it does not have."""
    keys = st.sampled_from([*kind.__struct_fields__, "sizes"])
    return st.dictionaries(keys, values, max_size=4)


actions = st.fixed_dictionaries(
    {"do": st.sampled_from([*ACTIONS, "explode"]), "who": words},
    optional={"at_round": numbers, "at_s": numbers, "args": st.dictionaries(words, values, max_size=2)},
)
trees = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "seed": values,
        "environment": table(EnvironmentConfig),
        "policy": st.fixed_dictionaries({"name": words}, optional={"args": values}),
        "algorithm": table(Algorithm),
        "federation": table(Federation),
        "agents": st.lists(table(Agents), max_size=2),
        "onboarding": table(Onboarding),
        "timeline": st.lists(actions, max_size=3),
    },
)


def toml(value: Any) -> str:
    """A value as TOML writes it inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return (
            '"' + "".join(f"\\U{ord(sign):08x}" for sign in value if not 0xD800 <= ord(sign) < 0xE000) + '"'
        )
    return str(value).lower()


@settings(max_examples=150)
@given(trees)
def test_any_tree_of_settings_is_valid_or_every_fault_is_named(tree: dict[str, Any]) -> None:
    """As a scenario's file, and without its timeline as a server's."""
    lines = [f"{key} = {toml(value)}" for key, value in tree.items()]
    target.scenario("\n".join(lines).encode())
    target.config("\n".join(line for line in lines if not line.startswith("timeline")).encode())


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["algorithm.rounds", "agents.0.goals", "policy.args", "x", "seed.a"]), values
        )
    )
)
def test_any_override_is_applied_or_a_fault(pairs: list[tuple[str, Any]]) -> None:
    """On the command line, several at once."""
    target.sets(b"\0".join(f"{key}={toml(value)}".encode() for key, value in pairs))
