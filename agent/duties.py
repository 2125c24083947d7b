"""What an agent is asked for and what it answers: rounds, evaluations, onboarding. Pure.

Work is named by what it answers (its key), so that an equal question gets the kept answer or the running
work, and a newer question replaces both. Sessions and time are the business of `agent.state_machine`.
"""

import contextlib
from typing import Any

from agent import events as e
from agent.outbox import Outbox, Parcel
from edge_fed.config import parse_goals
from edge_fed.federated.attacks import described
from edge_fed.params import crc32
from protocol import messages as m

PHASES: dict[type[e.Work], str] = {
    e.Build: "building",
    e.Train: "training",
    e.Evaluate: "evaluating",
    e.Onboard: "onboarding",
}


class Script:
    """The commands that one event leads to, in order."""

    def __init__(self) -> None:
        self.commands: list[e.Command] = []

    def do(self, command: e.Command) -> None:
        """Appends a command."""
        self.commands.append(command)

    def log(self, level: e.Level, text: str, **fields: Any) -> None:
        """Appends a line for people."""
        self.do(e.Log(level, text, fields))

    def tell(self, name: str, **fields: Any) -> None:
        """Appends an event for the supervisor."""
        self.do(e.Tell(name, fields))


class Duties:
    """The agent's work in one run, and the answers that it keeps.

    Attributes:
        outbox: Answers whose arrival is not known yet.
        role: What the agent is in this run.
        built: Set once environment and policy stand.
        work: What the worker thread does now.
        held: Round of the newest parameters received in this session.
    """

    def __init__(self, request: m.Onboard) -> None:
        self.outbox = Outbox()
        self.role: m.Role | None = None
        self.built: e.Built | None = None
        self.work: e.Work | None = None
        self.held = 0
        self._request = request
        self._key: object = None  # of the current work
        self._number = 0
        self._run = b""
        self._name = ""
        self._initial = ""
        self._features: tuple[str, ...] = ()
        self._tags: set[int] = set()
        self._armed: set[tuple[str, int]] = set()
        self._warned = False  # once: after the next round the same holds

    @property
    def run(self) -> str:
        """The run that it belongs to, for people; empty before the first WELCOME."""
        return f"run {self._name} ({self._run.hex()[:8]})" if self._run else ""

    @property
    def phase(self) -> str:
        """What the agent does; an onboarder that waits for its report's arrival still onboards."""
        report = self.outbox.get("report")
        if self.work is None and report and self.role == "onboard":
            return "onboarding"
        return PHASES[type(self.work)] if self.work else "idle"

    @property
    def reported(self) -> bool:
        """This is an onboarder, and its rows have arrived."""
        report = self.outbox.get("report")
        return bool(report and report.delivered and self.role == "onboard")

    @property
    def measured_rows(self) -> bool:
        """This is an onboarder, and it has its rows."""
        return self.role == "onboard" and self.outbox.get("report") is not None

    # --- the session -------------------------------------------------------------------------------

    def welcome(self, welcome: m.Welcome, run: bytes, out: Script, *, same: bool = False) -> None:
        """A session was granted: build what the run needs, unless it stands from an earlier session.

        ``same``: it is the session before, in which what was sent may be on its way still.
        """
        self.role, self.held, self._features = welcome.role, 0, welcome.features
        if not same:
            self.outbox.new_session()
        if welcome.role == "onboard":
            self.outbox.drop("update")
            self.outbox.put("request", Parcel(self._request))
        if run == self._run:
            return
        if self._run:
            out.log(
                "warning", "the server leads another run now; what belonged to the earlier one is dropped"
            )
            self.outbox.drop("update", "report")
        self._run, self.built, self._tags = run, None, set()
        self._initial = welcome.initial_sha256
        self._name = str(welcome.config.get("name", ""))
        out.log("info", f"joined run {self._name} to {welcome.role}", run=run.hex()[:8])
        self._start(e.Build(self._next(), welcome.config, run, welcome.role), None, out)

    def ready(self, last_counted: int) -> m.Ready | None:
        """The READY of this agent, if environment and policy stand."""
        if self.built is None:
            return None
        return m.Ready(
            dimension=self.built.dimension,
            schema_sha256=self.built.schema_sha256,
            initial_sha256=self.built.initial_sha256,
            fingerprint=self.built.fingerprint,
            state_tag=last_counted if last_counted in self._tags else 0,
            stateful=self.built.stateful,
        )

    def committed(self, round_: int, out: Script) -> None:
        """The server has committed up to this round: an update up to it has met its fate."""
        update = self.outbox.get("update")
        if update and update.round <= round_:
            self._die_at("sent", update.round, out)
            self.outbox.drop("update")

    def arm(self, event: e.Arm) -> None:
        """Remembers where this process is to kill itself."""
        self._armed.add((event.point, event.round))

    # --- questions ---------------------------------------------------------------------------------

    def theta(self, event: e.Received, theta: m.Theta, out: Script) -> None:
        """The server asks for the update of a round."""
        params = self._params(event, theta.crc32, f"round {theta.round}", out)
        control = event.tensors.get("control")
        if params is None:
            return
        if (control is not None) != ("control" in self._features):
            found = "without" if control is None else "with"
            out.log("warning", f"dropped the parameters of round {theta.round}: {found} a control variate")
            return
        key = ("update", theta.round, theta.crc32, theta.last_counted, theta.state_reset, theta.control_reset)
        if theta.round < max(self.held, event.header.committed + 1):
            out.log("debug", f"dropped the parameters of round {theta.round}: too old", held=self.held)
            return
        again = theta.round == self.held
        self.held = theta.round
        if self._answers(key) or (again and self._key == key):
            return
        self.outbox.drop("update", "report")
        out.tell("assigned", round=theta.round)
        self._die_at("assigned", theta.round, out)
        self._tags &= {theta.last_counted}
        work = e.Train(
            self._next(),
            theta.round,
            params,
            theta.last_counted,
            theta.state_reset,
            control,
            theta.control_reset,
            theta.crc32,
        )
        self._start(work, key, out)

    def evaluate(self, event: e.Received, question: m.Evaluate, out: Script) -> None:
        """The server wants parameters measured on this agent's goal."""
        params = self._params(event, question.crc32, f"evaluation {question.round}", out)
        key = ("evaluation", question.round, question.crc32)
        if params is None or self._answers(key):
            return
        self._start(e.Evaluate(self._next(), question.round, params), key, out)

    def init(self, event: e.Received, init: m.Init, out: Script) -> None:
        """The server hands out the initialization that this onboarder asked for."""
        params = self._params(event, init.crc32, f"initialization of round {init.round}", out)
        key = ("onboarding", init.round, init.crc32)
        if params is None:
            return
        self.held = init.round
        self.outbox.drop("request")
        if self._answers(key):
            return
        which = "final" if init.final else "current"
        out.log("info", f"received the {which} initialization (round {init.round}); adapting")
        self._start(e.Onboard(self._next(), init.round, params), key, out)

    def ack(self, ack: m.Ack, out: Script) -> None:
        """The server received an update or a report, and says what it will do with it."""
        if ack.of != "update":
            report = self.outbox.get("report")
            if report and report.round == ack.round:
                self.outbox.confirm("report")
            if ack.outcome == "refused":
                out.log("error", f"the server does not take the report of round {ack.round}: {ack.reason}")
            return
        update = self.outbox.get("update")
        if update is None or update.round != ack.round:
            return
        self._die_at("sent", ack.round, out)
        if ack.outcome in ("held", "duplicate"):
            self.outbox.confirm("update")
            return
        self.outbox.drop("update")
        why = f": {ack.reason}" if ack.reason else ""
        level: e.Level = "warning" if ack.outcome == "refused" else "info"
        out.log(level, f"round {ack.round}: the update does not count ({ack.outcome}{why})")

    def conflict(self, error: m.Error, out: Script) -> None:
        """The server holds another update of the same round from this agent."""
        self.outbox.drop("update")
        out.log("error", f"the server holds another update of this round: {error.message}")

    # --- answers -----------------------------------------------------------------------------------

    def built_up(self, built: e.Built, out: Script) -> None:
        """Environment and policy stand."""
        if not self._done(built.number):
            return
        self.built, self._tags = built, set(built.tags)
        if built.initial_sha256 != self._initial:
            out.log(
                "warning",
                "this machine computes other initial parameters than the server; the run is not bit-equal",
                here=built.initial_sha256[:12],
                server=self._initial[:12],
            )
        if built.overrides.attack is not None:
            text = f"this agent attacks, as [[agents]] of the run says: {described(built.overrides.attack)}"
            out.log("warning", text)
        out.log("info", "ready", parameters=built.dimension)

    def trained(self, trained: e.Trained, level: e.Level, out: Script) -> None:
        """An update is computed, and the state after it is stored; ``level`` is that of its line."""
        work = self.work
        if not isinstance(work, e.Train) or not self._done(trained.number):
            return
        self._tags.add(work.round)
        out.tell("trained", round=work.round)
        self._die_at("trained", work.round, out)
        message = m.Update(
            round=work.round,
            theta_crc32=work.theta_crc32,
            crc32=trained.crc32,
            trajectories=trained.trajectories,
            trajectories_spent=trained.spent,
            metrics=trained.metrics,
        )
        self.outbox.put("update", Parcel(message, {"delta": trained.delta}, work.round, self._key))
        out.log(level, f"round {work.round} trained", spent=trained.spent)

    def measured(self, measured: e.Measured, out: Script) -> None:
        """An evaluation or the onboarding rows are there."""
        work = self.work
        if not isinstance(work, e.Evaluate | e.Onboard) or not self._done(measured.number):
            return
        onboarding = isinstance(work, e.Onboard)
        if not measured.rows and not onboarding:  # a device: it has adapted, and nobody waits for figures
            return
        report = m.Report(
            kind="onboarding" if onboarding else "evaluation",
            round=work.round,
            rows=() if measured.private else measured.rows,
            trajectories=measured.trajectories,
        )
        self.outbox.put("report", Parcel(report, round=work.round, key=self._key))
        if measured.warning and not self._warned:
            self._warned = True
            out.log("warning", measured.warning)
            out.tell("warning", text=measured.warning)
        if onboarding:
            out.tell("rows", round=work.round, rows=list(measured.rows))
            out.do(e.Show(work.round, measured.rows))
        else:
            row = {name: measured.rows[0].get(name) for name in ("expected_return", "meta_objective")}
            out.log("info", f"evaluated the parameters of round {work.round}", **row)

    def failed(self, failed: e.Failed, out: Script) -> m.Error | None:
        """Work ended with an error.

        Returns:
            What to tell the server; None if the work was no longer wanted.
        """
        work = self.work
        if not self._done(failed.number):
            return None
        what = f"round {work.round}" if isinstance(work, e.Train) else PHASES[type(work)] if work else ""
        if failed.refused or failed.trace:  # else the exit's line says all
            out.log("error", f"{what}: {failed.why}", **({"trace": failed.trace} if failed.trace else {}))
        private = self.built is not None and self.built.private
        told = "failed; its own log says why" if private else failed.why
        return m.Error(code="internal", message=f"{what}: {told}"[:4096])

    def ended(self, number: int) -> bool:
        """Work ended without an answer; False: it was not wanted any more."""
        return self._done(number)

    # --- helpers -----------------------------------------------------------------------------------

    def _params(self, event: e.Received, expected: int, what: str, out: Script) -> Any:
        params = event.tensors["params"]
        found = crc32(*event.tensors.values())
        if found != expected:
            out.log(
                "warning", f"dropped the parameters of {what}: crc32 {found:08x}, expected {expected:08x}"
            )
            return None
        return params

    def _answers(self, key: object) -> bool:
        """Whether the kept answer or the running work answers this question."""
        if self.work is not None and self._key == key:
            return True
        update, report = self.outbox.get("update"), self.outbox.get("report")
        if report is not None and report.key == key:
            self.outbox.again("report")
            return True
        return update is not None and update.key == key  # if it was lost, the outbox knows

    def _start(self, work: e.Work, key: object, out: Script) -> None:
        self.work, self._key = work, key
        out.do(work)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _done(self, number: int) -> bool:
        """Ends the current work if this is its number; older work was replaced, its result is dropped."""
        if self.work is None or self.work.number != number:
            return False
        self.work = None
        return True

    def _die_at(self, point: e.KillPoint, round_: int, out: Script) -> None:
        if (point, round_) in self._armed:
            out.do(e.Die())


def trained(welcome: m.Welcome) -> frozenset[int]:
    """The goals that train in the run, as far as its configuration can be read."""
    tables = welcome.config.get("agents", ())
    with contextlib.suppress(ValueError, TypeError, KeyError):
        return frozenset(goal for table in tables for goal in parse_goals(table["goals"]))
    return frozenset()
