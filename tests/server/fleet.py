"""A fake fleet: drives the server's state machine with real sessions, without sockets, loops or sleeps."""

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np

from edge_fed.config import (
    Agents,
    Algorithm,
    EnvironmentConfig,
    Federation,
    Onboarding,
    PolicyConfig,
    RunConfig,
)
from edge_fed.params import F8, crc32
from protocol import messages as m
from protocol.session import Session
from server import events as e
from server.admission import Admission
from server.ledger import Ledger, Resume
from server.state_machine import Machine

RUN = b"run-run-run-run!"
Kind = TypeVar("Kind", bound=m.Message)
CommandKind = TypeVar("CommandKind", bound=e.Command)


def config(
    agents: str = "0-2", rounds: int = 2, onboard: str | tuple[int, ...] = (), **changes: Any
) -> RunConfig:
    """A run on the small gridworld; ``changes`` are keys of [federation] and [algorithm]."""
    federation = {k: v for k, v in changes.items() if k in Federation.__struct_fields__}
    algorithm = {k: v for k, v in changes.items() if k in Algorithm.__struct_fields__}
    return RunConfig(
        environment=EnvironmentConfig(family="gridworld", horizon=15),
        policy=PolicyConfig(name="softmax"),
        algorithm=Algorithm(rounds=rounds, **algorithm),
        federation=Federation(**federation),
        agents=(Agents(goals=agents),),
        onboarding=Onboarding(goals=onboard),
    )


def measured_row(goal: int, value: float = 1.0, **changes: Any) -> dict[str, Any]:
    """A row that an onboarder of a run of `config` may report."""
    row = {"goal": goal, "init": "learned", "m_adapt": 0, "return": value, "success": None, "trajectories": 0}
    return {**row, **changes}


class FakeAgent:
    """The agent's end of one connection, as the state machine's tests need it."""

    def __init__(self, server: "Fleet", agent: int, incarnation: bytes | None = None) -> None:
        self.server = server
        self.agent = agent
        self.incarnation = incarnation or server.fresh()
        self.peer = server.fresh()[:5]
        self.session = Session("agent", now=server.now)
        self.inbox: list[m.Message] = []
        self.tensors: dict[str, F8] = {}
        self.spent = 0
        server.agents.append(self)

    def reconnect(self) -> None:
        """The same process gets a new connection, unseen by itself."""
        self.peer = self.server.fresh()[:5]

    def send(self, message: m.Message, **tensors: F8) -> list[e.Command]:
        """Sends one message within the session."""
        header = self.session.send(message)
        return self.server.event(e.Received(self.peer, header, message, tensors))

    def take(self, command: e.Send) -> None:
        """Gets one message from the server; the session checks that it is legal."""
        self.session.receive(command.header, command.message, self.server.now)
        self.inbox.append(command.message)
        self.tensors = dict(command.tensors) or self.tensors

    def register(self, **fields: Any) -> list[e.Command]:
        """Sends REGISTER."""
        return self.send(m.Register(agent=self.agent, incarnation=self.incarnation, **fields))

    def ready(self, **fields: Any) -> list[e.Command]:
        """Sends READY that fits the run unless ``fields`` say otherwise."""
        admission = self.server.machine.room.admission
        fit = {
            "dimension": admission.dimension,
            "schema_sha256": admission.schema_sha256,
            "initial_sha256": admission.initial_sha256,
            "fingerprint": "machine a",
        }
        return self.send(m.Ready(**{**fit, **fields}))

    def join(self, **fields: Any) -> list[e.Command]:
        """REGISTER and READY."""
        return self.register(**fields) + self.ready()

    def beat(self, phase: str = "idle", round_: int = 0, heard: int = 0) -> list[e.Command]:
        """Sends HEARTBEAT; with ``heard = 0`` that of an agent which does not say what it has received."""
        return self.send(m.Heartbeat(phase=phase, round=round_, heard=heard))

    def last(self, kind: type[Kind]) -> Kind:
        """The newest message of a type."""
        return next(message for message in reversed(self.inbox) if isinstance(message, kind))

    def count(self, kind: type[m.Message]) -> int:
        """How many messages of a type came."""
        return sum(isinstance(message, kind) for message in self.inbox)

    def acks(self) -> list[m.Ack]:
        """The receipts of updates, in order."""
        return [message for message in self.inbox if isinstance(message, m.Ack) and message.of == "update"]

    def update(self, value: float = 1.0, **fields: Any) -> list[e.Command]:
        """Answers the newest THETA with a constant delta."""
        theta = self.last(m.Theta)
        delta = np.full(self.server.machine.room.admission.dimension, value)
        return self.update_with(delta, round=theta.round, theta_crc32=theta.crc32, **fields)

    def update_with(self, delta: F8, **fields: Any) -> list[e.Command]:
        """Sends UPDATE."""
        self.spent += fields.get("trajectories", 10)
        base = {"crc32": crc32(delta), "trajectories": 10, "trajectories_spent": self.spent}
        return self.send(m.Update(**{**base, **fields}), delta=delta)

    def evaluated(self, value: float = 0.5) -> list[e.Command]:
        """Answers the newest EVALUATE."""
        row = {
            "agent": self.agent,
            "kind": "dp",
            "expected_return": value,
            "meta_objective": 2 * value,
            "success": None,
            "success_adapted": None,
            "m_adapt": None,
            "trajectories": 7,
            "env_steps": 70,
        }
        round_ = self.last(m.Evaluate).round
        return self.send(m.Report(kind="evaluation", round=round_, rows=(row,), trajectories=7))


class Fleet:
    """A machine, its clock, and agents that get what it sends; checkpoints succeed at once."""

    def __init__(
        self,
        settings: RunConfig | None = None,
        *,
        ledger: Callable[[Admission], Ledger] | None = None,
        resume: Resume | None = None,
        serve: bool = False,
        holds: frozenset[int] = frozenset(),
        commits: bool = True,
    ) -> None:
        self.now = 100.0
        self.agents: list[FakeAgent] = []
        self.commands: list[e.Command] = []
        self.gone: set[bytes] = set()
        self.commits = commits
        self.saved: list[e.Commit] = []
        self._ids = itertools.count(1)
        admission = Admission(settings or config(), RUN)
        book = ledger(admission) if ledger else Ledger(admission.initial, control=admission.control)
        self.machine = Machine(admission, book, self.fresh, holds=holds, serve=serve, resume=resume)
        self.event(e.Started())

    def fresh(self) -> bytes:
        """16 bytes never used before."""
        return next(self._ids).to_bytes(16, "little")

    def agent(self, agent: int, **fields: Any) -> FakeAgent:
        """A new agent process."""
        return FakeAgent(self, agent, **fields)

    def event(self, event: e.Event) -> list[e.Command]:
        """Passes one event and carries its commands out, with what they lead to."""
        commands = self.machine.handle(event, self.now)
        self.commands += commands
        done = list(commands)
        for command in commands:
            if isinstance(command, e.Send):
                done += self._deliver(command)
            elif isinstance(command, e.Commit):
                self.saved.append(command)
                if self.commits:
                    done += self.event(e.Committed(command.round))
        return done

    def wait(self, seconds: float) -> list[e.Command]:
        """Lets time pass, with a tick at every time the machine asked for."""
        end, done = self.now + seconds, []
        while (due := self.machine.due()) <= end:
            self.now = max(self.now, due)
            done += self.event(e.Tick())
        self.now = end
        return done

    def live(self, seconds: int, *agents: FakeAgent, phase: str = "idle") -> None:
        """Time passes while these agents beat each second; ends with the run."""
        for _ in range(seconds):
            self.wait(1.0)
            for agent in agents:
                if not self.machine.course.ended:
                    agent.beat(phase, max(0, self.machine.room.ledger.committed) + (phase == "training"))

    def join(self, *agents: int) -> list[FakeAgent]:
        """Agents that register and become READY, in this order."""
        found = [self.agent(agent) for agent in agents]
        for agent in found:
            agent.join()
        return found

    def evaluate(self) -> None:
        """Everybody who was asked to evaluate reports."""
        evaluation = self.machine.course.measuring.evaluation
        for agent in list(self.agents):
            waiting = self.machine.course.measuring.evaluation is evaluation
            if evaluation and waiting and evaluation.expects(agent.agent) and agent.peer not in self.gone:
                agent.evaluated()

    def started(self, *agents: int) -> list[FakeAgent]:
        """Agents that have joined and evaluated round 0: round 1 is open."""
        found = self.join(*agents)
        self.evaluate()
        return found

    def of(self, kind: type[CommandKind]) -> list[CommandKind]:
        """All commands of a type so far."""
        return [command for command in self.commands if isinstance(command, kind)]

    def journal(self, event: str) -> list[dict[str, Any]]:
        """Fields of all journal lines of this name."""
        return [dict(c.fields) for c in self.of(e.Journal) if c.event == event]

    def told(self, name: str) -> list[dict[str, Any]]:
        """Fields of all supervisor events of this name."""
        return [dict(c.fields) for c in self.of(e.Tell) if c.name == name]

    @property
    def exit(self) -> e.Exit:
        """The exit; fails if there is none."""
        return self.of(e.Exit)[-1]

    @property
    def record(self) -> Any:
        """The newest round's record."""
        return self.saved[-1].record

    def _deliver(self, command: e.Send) -> list[e.Command]:
        if command.peer in self.gone:
            return self.event(e.Unreachable(command.peer))
        for agent in self.agents:
            if agent.peer == command.peer:
                agent.take(command)
        return []


def plain(value: Any) -> Any:
    """A record as plain values."""
    return msgspec.to_builtins(value)
