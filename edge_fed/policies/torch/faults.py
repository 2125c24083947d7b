"""What is wrong with a user's module, found when it is built and not in the middle of a run."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from edge_fed.errors import printable
from edge_fed.policies.torch.generator import watched
from edge_fed.user_code import USER_FAULTS, UserCodeError

ROWS = 4  # of the probe
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
DROPOUTS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
FLOATS = (torch.float32, torch.float64)
APART = {torch.float32: 1e-4, torch.float64: 1e-10}
"""How far the same row may be in batches of two sizes, relative to the largest output."""


class BadModule(UserCodeError):
    """A module cannot be a policy; the message names the module, what is wrong, and the fix."""

    def __init__(self, name: str, what: str, fix: str) -> None:
        super().__init__(printable(f"policy args module {name!r}: {what}"[:2000]) + f"; {fix}")


def insist_on_parts(name: str, module: nn.Module) -> None:
    """Refuses what can be seen without calling the module.

    Raises:
        BadModule: A layer, a parameter's dtype or its device is not allowed; the message names it.
    """
    for where, part in module.named_modules():
        for what, fix in _faults_of(part):
            raise BadModule(name, f"{where or 'itself'} is {type(part).__name__}: {what}", fix)
    for where, parameter in module.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise BadModule(
                name, f"{where} has no shape yet", "give the layer its sizes instead of a lazy one"
            )
        if parameter.dtype not in FLOATS:
            raise BadModule(
                name, f"{where} is {parameter.dtype}", 'use float32 or float64, e.g. dtype = "float32"'
            )
    for where, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.device.type != "cpu":
            raise BadModule(name, f"{where} is on {tensor.device}", "return the module on the CPU")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise BadModule(name, "it has no parameters to learn", "give it a layer, or set requires_grad")


def insist_on_default(name: str, before: torch.dtype) -> None:
    """Refuses code that changed torch's default dtype, which every later module of this process would get.

    Raises:
        BadModule: It is not ``before`` any more; puts it back.
    """
    if (found := torch.get_default_dtype()) != before:
        torch.set_default_dtype(before)
        raise BadModule(name, f"it makes {found} torch's default", "give its layers a dtype instead")


def _faults_of(part: nn.Module) -> Iterator[tuple[str, str]]:
    if isinstance(part, BATCH_NORMS):
        yield "a batch's statistics tie its rows together", "use nn.LayerNorm or nn.GroupNorm"
    if isinstance(part, DROPOUTS) and part.p > 0 and part.training:
        yield "it draws random numbers that no stream of the run gives", "remove it, or set p = 0"
    if isinstance(part, nn.RNNBase | nn.RNNCellBase):
        yield (
            "a policy here is a function of one observation and keeps no state between steps",
            "put a window of past observations into the observation and use nn.Linear or nn.Conv1d",
        )


def probe(name: str, module: nn.Module, observations: Tensor, outputs: int) -> None:
    """Refuses what shows when the module is called, twice on the same rows and once on half of them.

    Args:
        name: Of the module, for the message.
        module: Left as it is, unless it is refused.
        observations: `ROWS` of them, in the module's dtype.
        outputs: Numbers that the head needs per row.

    Raises:
        BadModule: Its output is of another shape, not finite, random, or of rows that know each other; or
            calling it changes a buffer.
    """
    before = {key: buffer.clone() for key, buffer in module.named_buffers()}
    default = torch.get_default_dtype()
    batches = (observations, observations, observations[:2])
    with watched() as generator:
        first, again, half = (called(name, module, rows) for rows in batches)
        drawn = not torch.equal(torch.get_rng_state(), generator)
    insist_on_default(name, default)
    if first.shape != (ROWS, outputs):
        raise BadModule(
            name,
            f"of {ROWS} observations of shape {tuple(observations.shape[1:])} it makes {tuple(first.shape)}",
            f"return [n, {outputs}] for n observations",
        )
    if not torch.isfinite(first).all():
        raise BadModule(
            name, "it gives NaN or infinity at its own initial parameters", "initialize it smaller"
        )
    if drawn:
        what = "calling it draws random numbers that no stream of the run gives"
        raise BadModule(name, what, "remove dropout and noise")
    changed = [key for key, buffer in module.named_buffers() if not torch.equal(buffer, before[key])]
    if changed:
        raise BadModule(name, f"calling it changes its buffer {changed[0]}", "keep no state between calls")
    if not torch.equal(first, again):
        raise BadModule(name, "two calls on the same rows differ", "keep no state between calls")
    if (first[:2] - half).abs().max() > APART[first.dtype] * first.abs().max():
        raise BadModule(name, "a row's output depends on the other rows", "use nn.LayerNorm or nn.GroupNorm")


def called(name: str, module: nn.Module, observations: Tensor) -> Tensor:
    """The module's output without a graph.

    Raises:
        BadModule: It fails, or returns no tensor of float32 or float64.
    """
    try:
        with torch.no_grad():
            found = module(observations)
    except USER_FAULTS as error:
        kind = f"{str(observations.dtype).removeprefix('torch.')}{list(observations.shape)}"
        what = f"forward fails on observations {kind}: {type(error).__name__}: {error}"
        raise BadModule(
            name, what, "it gets [n, *observation_shape], or int64 [n] of a finite set"
        ) from error
    if not isinstance(found, Tensor) or found.dtype not in FLOATS:
        kind = str(found.dtype) if isinstance(found, Tensor) else type(found).__name__
        raise BadModule(name, f"forward returns {kind}", "return one float tensor [n, outputs]")
    return found
