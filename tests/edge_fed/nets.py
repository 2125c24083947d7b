"""Networks as a user would write them, good and bad, for policy 'torch'. Needs torch."""

from itertools import pairwise

import torch
from torch import Tensor, nn

FROZEN_SCALE = 2.0


class Net(nn.Module):
    """The 2-32-8 network of the paper by default."""

    def __init__(self, observation_shape, num_actions, hidden=(32,), activation="Tanh"):
        super().__init__()
        sizes = (observation_shape[0], *hidden)
        layers = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), getattr(nn, activation)()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-1], num_actions))

    def forward(self, x):
        """The outputs of a batch."""
        return self.body(x)


class Mean(nn.Module):
    """Means of a Gaussian policy."""

    def __init__(self, observation_shape, action_dimension, hidden=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observation_shape[0], hidden), nn.Tanh(), nn.Linear(hidden, action_dimension)
        )

    def forward(self, x):
        """The outputs of a batch."""
        return self.body(x)


class Table(nn.Module):
    """Logits of finite states: one row each."""

    def __init__(self, num_states, num_actions):
        super().__init__()
        self.rows = nn.Embedding(num_states, num_actions)
        nn.init.zeros_(self.rows.weight)

    def forward(self, states):
        """The outputs of a batch."""
        return self.rows(states)


class Conv(nn.Module):
    """Logits of an image."""

    def __init__(self, observation_shape, num_actions):
        super().__init__()
        channels, height, width = observation_shape
        self.image = nn.Conv2d(channels, 2, 3, padding=1)
        self.out = nn.Linear(2 * height * width, num_actions)

    def forward(self, x):
        """The outputs of a batch."""
        return self.out(nn.functional.gelu(self.image(x)).flatten(1))


class Rich(nn.Module):
    """Shared, frozen and mixed parameters, a buffer, layers whose backward is no single formula."""

    def __init__(self, num_actions):
        super().__init__()
        self.inward = nn.Linear(2, 6)
        self.again = self.inward
        self.norm = nn.LayerNorm(6)
        self.scale = nn.Parameter(torch.full((6,), FROZEN_SCALE), requires_grad=False)
        self.register_buffer("shift", torch.arange(6.0))
        self.out = nn.Linear(6, num_actions).double()

    def forward(self, x):
        """The outputs of a batch."""
        units = nn.functional.silu(self.norm(self.inward(x) * self.scale + self.shift))
        return self.out(units.double())


def make(num_actions: int, hidden: int = 4) -> nn.Module:
    """A factory that says what it makes."""
    return nn.Sequential(nn.Linear(2, hidden), nn.ELU(), nn.Linear(hidden, num_actions))


def unsaid(num_actions):
    """A function that does not say what it makes: nobody may call it by a setting."""
    raise AssertionError("must not be called")


def tuple_maker() -> tuple:
    """Says that it makes something else."""
    raise AssertionError("must not be called")


NO_FUNCTION = 3


class Bad(nn.Module):
    """Does what ``how`` says on top of a linear layer."""

    def __init__(self, how, num_actions=8):
        super().__init__()
        self.how = how
        self.count = 0
        self.linear = nn.Linear(2, num_actions)
        self.register_buffer("calls", torch.zeros(()))
        if how == "batch norm":
            self.extra = nn.BatchNorm1d(2)
        elif how == "dropout":
            self.extra = nn.Dropout(0.1)
        elif how == "recurrent":
            self.extra = nn.GRU(2, 2)
        elif how == "lazy":
            self.extra = nn.LazyLinear(2)
        elif how == "half":
            self.extra = nn.Linear(2, 2).half()
        elif how == "frozen":
            self.requires_grad_(False)
        elif how == "constructor":
            raise RuntimeError("no file of weights")
        elif how == "constructor exits":
            raise SystemExit("no file of weights")
        elif how == "default":
            torch.set_default_dtype(torch.float16)
        elif how == "infinite":
            nn.init.constant_(self.linear.bias, torch.inf)

    def forward(self, x):
        """The outputs of a batch."""
        logits: Tensor = self.linear(x)
        if self.how == "default later":
            torch.set_default_dtype(torch.float16)
        if self.how == "random":
            return logits + torch.rand_like(logits)
        if self.how == "buffer":
            self.calls += 1
        if self.how == "state":
            self.count += 1
            return logits * self.count
        if self.how == "rows":
            return logits - logits.mean(dim=0)
        if self.how == "shape":
            return logits[:, :3]
        if self.how == "tuple":
            return logits, logits
        if self.how == "integers":
            return logits.argmax(dim=1)
        if self.how == "exits":
            raise SystemExit(0)
        if self.how == "fails":
            return self.linear(torch.cat([x, x], dim=1))
        if self.how == "once":
            return _Once.apply(logits)
        return logits


class _Once(torch.autograd.Function):
    """Has a gradient, and no second one."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slope):
        return slope
