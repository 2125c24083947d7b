"""Policies whose network is a user's `torch.nn.Module`. This file does not import torch; its maker does."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from edge_fed.arguments import read_args
from edge_fed.policies.base import Policy
from edge_fed.policies.gaussian import LOG_STD
from edge_fed.spaces import Spaces
from edge_fed.user_code import UserCodeError


class TorchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the policy.

    Attributes:
        module: ``file:name`` of the module's class, or of a function annotated ``-> nn.Module``.
        kwargs: Passed to it, beside what its signature asks for: `edge_fed.policies.torch.building`.
        head: What its outputs are; None: logits for a finite set of actions, means for a box.
        log_std: Of a Gaussian head, in unit action space, for every dimension; ``learned`` starts from the
            same.
        squash: Of a Gaussian head: an action is tanh of the sample, so that none leaves the box.
        dtype: Casts the module; None: as the module is. The master vector is float64 in any case.
        threads: Of torch, in this process. Bits depend on it.
    """

    module: str
    kwargs: dict[str, Any] = {}
    head: Literal["categorical", "gaussian"] | None = None
    log_std: Annotated[float, Meta(ge=-20, le=5)] | Literal["learned"] = LOG_STD
    squash: bool = False
    dtype: Literal["float32", "float64"] | None = None
    threads: Annotated[int, Meta(ge=1, le=64)] = 1


def make_torch(spaces: Spaces, args: dict[str, Any]) -> Policy:
    """Builds the policy from `TorchArgs`; only here is torch imported.

    Raises:
        ValueError: An arg is unknown or of a wrong type; torch is not installed; the module cannot be loaded,
            or breaks its interface. The message says what to do.
    """
    settings = read_args(TorchArgs, args, "torch")
    try:
        from edge_fed.policies.torch.policy import TorchPolicy
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserCodeError(
            "policy 'torch' needs PyTorch, which is not installed here: pip install 'edge-fed[torch]'"
        ) from None
    return TorchPolicy(spaces, settings)
