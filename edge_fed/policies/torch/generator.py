"""torch's one generator, which all threads of a process share, as the agents of an inproc run do.

`torch.nn.init` knows no other. Whoever seeds it, or watches whether a call draws from it, must be alone.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_ALONE = threading.RLock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seeds the generator for the block, then puts it back."""
    with _ALONE, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def watched() -> Iterator[Tensor]:
    """Gives the generator's state before the block, and puts it back afterwards."""
    with _ALONE, torch.random.fork_rng(devices=[]):
        yield torch.get_rng_state()
