"""From ``file:name`` to a module: who is called, with what, and what its parameters are.

What is named must be a class derived from `torch.nn.Module`, or a function that says ``-> nn.Module``:
settings come over the wire, and a function is called by them only if its author meant that
(`edge_fed.user_code`).

It is called with ``kwargs`` and with those of `offered` that its signature names.
"""

import hashlib
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from edge_fed.policies.torch.faults import BadModule, insist_on_default
from edge_fed.policies.torch.generator import seeded
from edge_fed.spaces import Spaces
from edge_fed.user_code import USER_FAULTS, load

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def offered(spaces: Spaces) -> dict[str, Any]:
    """What a signature may ask for by name, if the family has it."""
    every = {
        "observation_shape": spaces.observation_shape,
        "num_states": spaces.num_states,
        "num_actions": spaces.num_actions,
        "action_dimension": len(spaces.action_low) or None,
    }
    return {name: value for name, value in every.items() if value is not None}


def constructor(
    name: str, kwargs: dict[str, Any], spaces: Spaces, dtype: str | None
) -> Callable[[int], nn.Module]:
    """A function that makes the module anew from a seed of torch's generator.

    Raises:
        UserCodeError: It cannot be loaded, or must not be called.
    """
    target = load(name, "policy args module")
    _insist_on_module(target, name)
    named = inspect.signature(target).parameters
    given = {key: value for key, value in offered(spaces).items() if key in named} | kwargs

    def make(seed: int) -> nn.Module:
        default = torch.get_default_dtype()
        with seeded(seed):
            try:
                found = target(**given)
            except USER_FAULTS as error:
                what = (
                    f"calling it with {', '.join(given) or 'nothing'} failed: {type(error).__name__}: {error}"
                )
                fix = f"its signature may name {', '.join(offered(spaces))}; everything else is in kwargs"
                raise BadModule(name, what, fix) from error
        insist_on_default(name, default)
        if not isinstance(found, nn.Module):
            raise BadModule(name, f"it made a {type(found).__name__}", "return an nn.Module")
        return found if dtype is None else found.to(DTYPES[dtype])

    return make


def _insist_on_module(target: Any, name: str) -> None:
    if inspect.isclass(target) and issubclass(target, nn.Module):
        return
    try:
        returned = typing.get_type_hints(target).get("return")
    except USER_FAULTS as error:
        raise BadModule(name, f"its annotations cannot be read: {error}", "import what they name") from error
    if not (inspect.isclass(returned) and issubclass(returned, nn.Module)):
        raise BadModule(
            name,
            "it is a function that does not say that it makes a module, and a server may not call others",
            "write `-> nn.Module` behind its parameters",
        )


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are learned, in the order of ``named_parameters``; a shared one once."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def layout(module: nn.Module) -> Iterator[str]:
    """What two programs must agree on, one text each: parameters, then constants, then the structure."""
    for name, parameter in trainable(module).items():
        yield f"{name} {_type(parameter)}"
    for name, constant in constants(module).items():
        yield f"constant {name} {_type(constant)} {_short(constant)}"
    yield f"structure {hashlib.sha256(repr(module).encode()).hexdigest()[:16]}"


def constants(module: nn.Module) -> dict[str, Tensor]:
    """Buffers and frozen parameters: not learned, so that all programs must have the same."""
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    return {**frozen, **dict(module.named_buffers())}


def _type(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{','.join(map(str, tensor.shape))}]"


def _short(tensor: Tensor) -> str:
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]
