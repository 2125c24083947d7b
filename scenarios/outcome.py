"""What a run gave, whatever ran it, and the one JSON object that says so."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from edge_fed.federated.attacks import attackers
from edge_fed.program.exit_codes import ExitCode
from edge_fed.summaries import evaluation_summary
from scenarios.expectations import Verdict, judge
from scenarios.timeline import Scenario

Line = Mapping[str, Any]


class Failure(msgspec.Struct, frozen=True):
    """Why a run did not complete.

    Attributes:
        code: Exit code of the command.
        type: Kind of failure in one word, e.g. ``ConfigError``.
        message: Cause.
        hint: What to do next.
    """

    code: int
    type: str
    message: str
    hint: str = ""


class Signalled(BaseException):
    """SIGINT or SIGTERM came while no loop was running; like KeyboardInterrupt, no fault of what it stops."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        code = ExitCode.INTERRUPTED if self.signal == signal.SIGINT else ExitCode.TERMINATED
        self.failure = Failure(int(code), code.name.lower(), f"stopped by {self.signal.name}")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended, in whatever way.

    Attributes:
        scenario: What was run; None if it could not be read.
        runtime: plain, inproc or processes.
        run_dir: Run folder, if there is one.
        rounds: One line per committed round, the record of the round and its metrics.
        evaluations: Evaluations of the training agents and reports of onboarders.
        params_sha256: Hash of the newest parameters.
        wall_s: Seconds from start to end.
        bytes_sent: By the server.
        bytes_received: By the server.
        failure: None if the run completed.
        privacy: What its noise guarantees, see `edge_fed.program.accountant.statement`; None: it has none.
    """

    scenario: Scenario | None
    runtime: str
    run_dir: str | None = None
    rounds: Sequence[Line] = ()
    evaluations: Sequence[Line] = ()
    params_sha256: str | None = None
    wall_s: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    failure: Failure | None = None
    privacy: Mapping[str, Any] | None = None

    @property
    def trajectories(self) -> dict[int, int]:
        """Trajectories that each agent contributed to training."""
        found: dict[int, int] = {}
        for line in self.rounds:
            for part in line["contributors"]:
                found[part["agent"]] = found.get(part["agent"], 0) + part["trajectories"]
        return dict(sorted(found.items()))

    @property
    def onboarding(self) -> list[dict[str, Any]]:
        """The rows of each goal's report of the latest round, by goal."""
        latest: dict[int, Line] = {}
        for report in self.evaluations:
            if (
                report["kind"] == "onboarding"
                and report["round"] >= latest.get(report["agent"], report)["round"]
            ):
                latest[report["agent"]] = report
        return [dict(row) for goal in sorted(latest) for row in latest[goal]["rows"]]

    @property
    def evaluated(self) -> Line:
        """The training agents' evaluation of the newest round; empty if there is none."""
        found = [line for line in self.evaluations if line["kind"] == "evaluation" and line["n"]]
        newest = max(found, key=lambda line: line["round"], default={})
        return newest if newest.get("round") == self.last_round else {}

    @property
    def honest(self) -> Line:
        """The same over the agents without attack; empty if nobody has one."""
        attacking = attackers(self.scenario) if self.scenario else {}
        rows = [row for row in self.evaluated.get("rows", ()) if row["agent"] not in attacking]
        return evaluation_summary(rows) if attacking and rows else {}

    @property
    def last_round(self) -> int:
        """The newest committed round; 0 if there is none."""
        return int(self.rounds[-1]["round"]) if self.rounds else 0

    @property
    def verdicts(self) -> list[Verdict]:
        """Every expectation of the scenario against what was found."""
        expects = self.scenario.expect if self.scenario else ()
        return judge(expects, self.values(), self.onboarding)

    def values(self) -> dict[str, float | None]:
        """The metrics that expectations may name, see `scenarios.expectations.METRICS`."""
        measured = ("meta_objective", "expected_return", "success", "success_adapted")
        return {
            **{name: self.evaluated.get(name) for name in measured},
            **{f"honest_{name}": self.honest.get(name) for name in measured[:2]},
            "rounds": float(len(self.rounds)),
            "skipped_rounds": float(sum(line["outcome"] == "skipped" for line in self.rounds)),
            "excused": float(sum(len(line.get("missing", ())) for line in self.rounds)),
            "trajectories": float(sum(self.trajectories.values())),
            "bytes_sent": float(self.bytes_sent),
            "bytes_received": float(self.bytes_received),
            "wall_s": self.wall_s,
        }

    @property
    def exit_code(self) -> int:
        """0; the failure's code; or 1 if the run completed and an expectation is unmet."""
        if self.failure:
            return self.failure.code
        return 0 if all(verdict.met for verdict in self.verdicts) else 1


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The object that ``--json`` prints; its keys are a contract."""
    failure = outcome.failure
    return {
        "success": failure is None,
        "scenario": outcome.scenario.name if outcome.scenario else None,
        "runtime": outcome.runtime,
        "run_dir": outcome.run_dir,
        "rounds": len(outcome.rounds),
        "params_sha256": outcome.params_sha256,
        "wall_s": round(outcome.wall_s, 3),
        "bytes_sent": outcome.bytes_sent,
        "bytes_received": outcome.bytes_received,
        "trajectories": {str(agent): count for agent, count in outcome.trajectories.items()},
        "metrics": {
            "meta_objective": outcome.evaluated.get("meta_objective"),
            "meta_objective_kind": outcome.evaluated.get("meta_objective_kind"),
            "expected_return": outcome.evaluated.get("expected_return"),
            "onboarding": outcome.onboarding,
            "expectations": [msgspec.to_builtins(verdict) for verdict in outcome.verdicts],
        },
        "privacy": None if outcome.privacy is None else dict(outcome.privacy),
        "error": None
        if failure is None
        else {"type": failure.type, "message": failure.message, "hint": failure.hint},
    }
