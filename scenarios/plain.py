"""The plain runtime: the algorithm as a loop, no network. The oracle that the other two must equal."""

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from edge_fed.config import Overrides, overrides_by_goal, parse_goals
from edge_fed.errors import EdgeFedError
from edge_fed.federated.attacks import attackers, described
from edge_fed.federated.ending import too_few_here
from edge_fed.federated.per_fedavg_pg import Round, per_fedavg_pg
from edge_fed.federated.privacy import SECRET_BYTES
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.learner import Learner, Warn
from edge_fed.params import F8, params_sha256
from edge_fed.program.accountant import statement
from edge_fed.program.exit_codes import ExitCode
from edge_fed.program.run_folder import SCHEMA, RunFolder
from edge_fed.summaries import evaluation_summary
from scenarios.actions import SERVER
from scenarios.attendance import attendance
from scenarios.outcome import Failure, Outcome, Signalled
from scenarios.script import ignored_by_plain
from scenarios.timeline import Scenario, agents_of
from scenarios.watching import Watch


def run_plain(scenario: Scenario, watch: Watch, folder: RunFolder | None = None) -> Outcome:
    """Runs a scenario as a loop.

    Args:
        scenario: Checked and resolved; `scenarios.script.runtime_faults` found nothing for ``plain``.
        watch: Who is told how it goes.
        folder: Where to leave records and evaluations; None: nowhere.
    """
    return PlainRun(scenario, watch, folder).play()


class PlainRun:
    """One run; `run_plain` is enough unless its tasks and parameters are wanted, also while it goes.

    Attributes:
        tasks: Of the training agents.
        params: The newest parameters, ``[d]``.
        updates: Agent -> updates that it would have sent.
    """

    def __init__(self, scenario: Scenario, watch: Watch, folder: RunFolder | None) -> None:
        self.scenario = scenario
        self.watch = watch
        self.folder = folder
        self.overrides = overrides_by_goal(scenario)
        self.tasks = {goal: make_learner(scenario, goal, own) for goal, own in self.overrides.items()}
        self.params = initial_params(scenario)
        self.rounds: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.quarantined: set[int] = set()
        self.updates: Counter[int] = Counter()
        self._warned = False

    def play(self) -> Outcome:
        """The whole run; a signal, or too few agents, ends it early, with what there is."""
        began, failure = time.monotonic(), None
        try:
            if why := self._play():
                failure = _ended_early(why)
        except Signalled as error:
            failure = error.failure
        except (SystemExit, GeneratorExit) as error:  # of a user's code, where nothing nearer caught it
            raise EdgeFedError(f"the run's code ended with {type(error).__name__}: {error}") from error
        return Outcome(
            scenario=self.scenario,
            runtime="plain",
            run_dir=str(self.folder.path) if self.folder else None,
            rounds=self.rounds,
            evaluations=self.evaluations,
            params_sha256=params_sha256(self.params),
            wall_s=time.monotonic() - began,
            failure=failure,
            privacy=statement(self.scenario.privacy, self.updates),
        )

    def _play(self) -> str:
        """Returns why the run ended before its time, as the server would say it; empty: it did not."""
        if left_out := ignored_by_plain(self.scenario):
            self.watch.note("info", "the plain loop leaves out what changes no bits: " + ", ".join(left_out))
        for agent, attack in attackers(self.scenario).items():
            self.watch.note("warning", f"agent {agent} attacks, as [[agents]] says: {described(attack)}")
        days = list(attendance(self.scenario))
        params = self.params
        self._evaluate(0, params, days[0].eligible if days else tuple(self.tasks))
        self._timeline(1, params)
        since = time.monotonic()
        for outcome in per_fedavg_pg(self.scenario, self.tasks, params, days, _secret(self.scenario)):
            self.params = params = outcome.params
            number = outcome.record.round
            self._round(outcome, time.monotonic() - since)
            if outcome.ends:
                return outcome.ends
            self._evaluate(number, params, days[number - 1].eligible)
            self._timeline(number + 1, params)
            since = time.monotonic()
        if len(self.rounds) < len(days):
            return too_few_here(0, 1, self.tasks)
        for goal in parse_goals(self.scenario.onboarding.goals):
            self._onboard(goal, len(days), params)
        return ""

    def _round(self, outcome: Round, seconds: float) -> None:
        line = {
            "schema": SCHEMA,
            **json.loads(msgspec.json.encode(outcome.record)),
            "seconds": seconds,
            "bytes_sent": 0,
            "bytes_received": 0,
            "metrics": outcome.metrics,
        }
        self.rounds.append(line)
        record = outcome.record
        self.updates.update(
            a for a in record.cohort if record.missing.get(a, "refused").startswith("refused")
        )
        for agent in outcome.record.quarantined:
            self.quarantined.add(agent)
            why = outcome.record.missing.get(agent, "")
            self.watch.note("warning", f"agent {agent} is in quarantine for the rest of the run: {why}")
        if self.folder:
            _append(self.folder.metrics, line)
        self.watch.round(line)

    def _evaluate(self, number: int, params: F8, agents: Iterable[int]) -> None:
        every = self.scenario.federation.evaluate_every
        if number not in (0, self.scenario.algorithm.rounds) and not (every and number % every == 0):
            return
        rows = [
            self.tasks[agent].evaluate(
                params, self.scenario.seed, self.scenario.onboarding, self._warn(f"agent-{agent}")
            )
            for agent in agents
            if agent not in self.quarantined
        ]
        if not rows:
            return
        line = {"kind": "evaluation", "round": number, **evaluation_summary(rows), "rows": rows}
        self._keep(line)
        self.watch.evaluation(line)

    def _timeline(self, next_round: int, params: F8) -> None:
        """Onboarders that come at the boundary before ``next_round``."""
        for action in self.scenario.timeline:
            if action.do == "onboard" and action.at_round == next_round and action.who != SERVER:
                for goal in agents_of(action):
                    self._onboard(goal, next_round - 1, params)

    def _onboard(self, goal: int, number: int, params: F8) -> None:
        task = self._newcomer(goal)
        warn = self._warn(f"onboard-{goal}")
        found = task.onboard(params, self.scenario.seed, self.scenario.onboarding, lambda _done: None, warn)
        spent = found.adapt_trajectories + found.eval_trajectories
        self._keep(
            {
                "kind": "onboarding",
                "round": number,
                "agent": goal,
                "trajectories": spent,
                "rows": found.rows,
            }
        )
        self.watch.report(goal, found.rows)

    def _warn(self, who: str) -> Warn:
        """Passes the first warning of a run on: the others are set up alike."""

        def warn(text: str) -> None:
            if not self._warned:
                self._warned = True
                self.watch.note("warning", f"{who}, the first to say so: {text}")

        return warn

    def _newcomer(self, goal: int) -> Learner:
        return make_learner(self.scenario, goal, self.overrides.get(goal, Overrides()))

    def _keep(self, line: dict[str, Any]) -> None:
        self.evaluations.append(line)
        if self.folder:
            _append(self.folder.evaluations, line)


def _ended_early(why: str) -> Failure:
    """The same exit code as the server's."""
    hint = 'see "missing" and "quarantined" of the last rounds: change what their agents run into'
    return Failure(int(ExitCode.QUORUM), ExitCode.QUORUM.name.lower(), why, hint)


def _append(path: Any, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf8") as file:
        file.write(json.dumps(line) + "\n")


def _secret(scenario: Scenario) -> bytes | None:
    """What the noise of this one run is drawn from; kept nowhere."""
    return secrets.token_bytes(SECRET_BYTES) if scenario.privacy.noisy else None


def hashes(scenario: Scenario) -> Iterator[str]:
    """The parameter hash after each round, nothing else: what the networked runtimes are compared with."""
    overrides = overrides_by_goal(scenario)
    tasks = {goal: make_learner(scenario, goal, own) for goal, own in overrides.items()}
    days = attendance(scenario)
    for outcome in per_fedavg_pg(scenario, tasks, initial_params(scenario), days, _secret(scenario)):
        yield outcome.record.params_sha256
