"""Policies: one file per policy, one interface, one table of names."""

from edge_fed.config import ModelConfig, PolicyConfig
from edge_fed.errors import UnknownName
from edge_fed.policies.base import MakePolicy, Policy
from edge_fed.policies.gaussian import make_gaussian
from edge_fed.policies.mlp import make_mlp
from edge_fed.policies.softmax import make_softmax
from edge_fed.policies.torch import make_torch
from edge_fed.spaces import Spaces
from edge_fed.tables import Table

POLICIES: Table[MakePolicy] = Table(
    "policy",
    {
        "gaussian": make_gaussian,
        "mlp": make_mlp,
        "softmax": make_softmax,
        "torch": make_torch,  # imports torch when it is called
    },
)
"""The table: a new policy is one file and one line here."""

ON_ANY_SPACES = frozenset({"torch"})
"""Those that work on all spaces, given the right arguments; the others do without arguments, or cannot."""


def make_policy(config: PolicyConfig, spaces: Spaces) -> Policy:
    """Builds the policy that ``config`` names for observations and actions ``spaces``.

    ``init_seed``, the key of the run's one initialization, is an arg of every policy and read by
    `edge_fed.federated.task.initial_params`.

    Raises:
        UnknownName: No such policy.
        TypeError, ValueError: An arg is wrong; the message names it.
    """
    if config.name not in POLICIES:
        raise UnknownName("policy", config.name, POLICIES)
    init_seed(config)
    args = {name: value for name, value in config.args.items() if name != "init_seed"}
    return POLICIES[config.name](spaces, args)


def init_seed(config: PolicyConfig | ModelConfig) -> int:
    """The key of the initial parameters of a policy or model: a whole number from 0, by default 0.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is negative or above 2**63 - 1.
    """
    seed = config.args.get("init_seed", 0)
    if type(seed) is not int:
        raise TypeError(f"init_seed must be a whole number; found {seed!r}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"init_seed must be from 0 to 2**63 - 1; found {seed}")
    return seed
