"""The server's side of a session for tests of the agent: numbers what it sends, checks what it gets."""

import hashlib
from typing import Any

import msgspec
import numpy as np

from agent import events as e
from agent.plan import Plan
from agent.state_machine import Machine
from edge_fed.config import RunConfig
from edge_fed.params import F8, crc32
from protocol import messages as m
from protocol.limits import Limits
from protocol.session import Session

RUN = b"r" * 16
INITIAL = hashlib.sha256(b"initial").hexdigest()
SCHEMA = hashlib.sha256(b"schema").hexdigest()
LIMITS = {name: float(value) for name, value in msgspec.to_builtins(Limits()).items()}
CONFIG: dict[str, Any] = msgspec.to_builtins(RunConfig())


def params(value: float = 1.0, dimension: int = 3) -> F8:
    """A recognisable parameter vector."""
    return np.full(dimension, value)


class ServerSide:
    """One server process as one agent sees it; a restarted server is a new object with another ``sid``."""

    def __init__(self, sid: bytes = b"s" * 16, run: bytes = RUN) -> None:
        self.session = Session("server", sid, run)
        self.committed = 0

    def hear(self, commands: list[e.Command]) -> list[m.Message]:
        """Takes what the agent sent, in order; illegal messages raise."""
        sent = [c for c in commands if isinstance(c, e.Send)]
        for send in sent:
            self.session.receive(send.header, send.message, 0.0)
        return [send.message for send in sent]

    def say(self, message: m.Message, **tensors: F8) -> e.Received:
        """A message of this server, numbered."""
        return e.Received(self.session.send(message, self.committed), message, tensors)

    def welcome(
        self, role: m.Role = "train", last_counted: int = 0, features: tuple[str, ...] = ()
    ) -> e.Received:
        """WELCOME to the few-shot run."""
        return self.say(
            m.Welcome(
                role=role,
                config=CONFIG,
                limits=LIMITS,
                features=features,
                last_counted=last_counted,
                initial_sha256=INITIAL,
            )
        )

    def theta(
        self, round_: int, value: float = 1.0, control: float | None = None, **fields: Any
    ) -> e.Received:
        """THETA of a round, perhaps with a control variate; everything before it is committed."""
        self.committed = round_ - 1
        tensors = {"params": params(value), **({} if control is None else {"control": params(control)})}
        whole = {"crc32": crc32(*tensors.values()), "deadline_s": 60.0, **fields}
        return self.say(m.Theta(round=round_, **whole), **tensors)


class Agent:
    """A machine with a clock of its own; ``tell`` passes an event and returns the commands."""

    def __init__(self, **plan: Any) -> None:
        self.now = 100.0
        fields: dict[str, Any] = {"agent": 3, "incarnation": b"i" * 16, "address": "tcp://here:1", **plan}
        self.machine = Machine(Plan(**fields), self.now, lambda _attempt: 0.5)

    def tell(self, event: e.Event, after: float = 0.0) -> list[e.Command]:
        """Passes one event, ``after`` seconds later."""
        self.now += after
        return self.machine.handle(event, self.now)

    def run_until(self, seconds: float, *, alone: bool = False) -> list[e.Command]:
        """Ticks exactly when the machine asks for it, for so many seconds; ``alone``: nothing can be sent."""
        end, commands = self.now + seconds, []
        while self.machine.due() <= end and not self.machine.ended:
            self.now = max(self.now, self.machine.due())
            told = self.tell(e.Tick())
            for message in sent(told) if alone else ():
                told += self.tell(e.NotSent(message))
            commands += told
        self.now = end
        return commands

    def join(
        self, server: ServerSide, role: m.Role = "train", features: tuple[str, ...] = (), **built: Any
    ) -> None:
        """Registers, builds and becomes READY."""
        server.hear(self.tell(e.Tick()))
        commands = self.tell(server.welcome(role, features=features))
        (build,) = of(commands, e.Build)
        server.hear(self.tell(self.built(build, **built)))

    def built(self, build: e.Build, **fields: Any) -> e.Built:
        """What the worker answers to Build."""
        return e.Built(build.number, 3, SCHEMA, fields.pop("initial", INITIAL), "fingerprint", **fields)


def trained(work: e.Train, value: float = 0.25) -> e.Trained:
    """What the worker answers to Train."""
    delta = params(value)
    return e.Trained(work.number, delta, crc32(delta), 100, 100, {"inner_norm": 1.0})


def of(commands: list[e.Command], kind: type[Any]) -> list[Any]:
    """The commands of one type."""
    return [c for c in commands if isinstance(c, kind)]


def sent(commands: list[e.Command], kind: type[Any] = m.Message) -> list[Any]:
    """The messages of one type among the commands."""
    return [c.message for c in commands if isinstance(c, e.Send) and isinstance(c.message, kind)]


def texts(commands: list[e.Command]) -> str:
    """Everything that is logged."""
    return "\n".join(f"{c.text} {dict(c.fields)}" for c in commands if isinstance(c, e.Log))
