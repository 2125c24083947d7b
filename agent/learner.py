"""An agent's mathematics: its task, its state, its measurements. Knows no socket, no session, no clock.

The worker thread imports this file, and with it environments and policies, while the socket connects.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from agent import events as e
from agent.policy_file import PolicyFile, describe, packed
from agent.secret import noise_secret
from agent.state_store import StateStore
from edge_fed.config import Overrides, Privacy, RunConfig, merge, overrides_by_goal
from edge_fed.errors import EdgeFedError
from edge_fed.federated.control_variate import reset_own
from edge_fed.federated.local_update import AgentState, initial_state
from edge_fed.federated.privacy import private_update
from edge_fed.federated.task import initial_params, make_learner
from edge_fed.learner import Learner as TaskLearner
from edge_fed.params import F8, crc32, params_sha256, schema_sha256
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import write_atomic
from edge_fed.program.fingerprint import fingerprint
from edge_fed.seeding import Purpose, stream

Progress = Callable[[int], None]


class StateMissing(EdgeFedError):
    """The server counts on an agent state that is not here any more."""


class Learner:
    """What one agent computes. One thread uses it.

    Args:
        goal: Agent id = goal.
        overrides: What this agent's own command line sets.
        state_folder: Where agent state survives a restart.
        save: Where to keep the adapted policy; None: nowhere.
        secret_folder: Where the secret of its private noise survives a restart; None: with the state.
        min_noise: The noise multiplier that it insists on; above 0 its measurements stay here as well.
    """

    def __init__(
        self,
        goal: int,
        overrides: Overrides,
        state_folder: Path,
        save: Path | None = None,
        secret_folder: Path | None = None,
        min_noise: float = 0.0,
    ) -> None:
        self._goal = goal
        self._own = overrides
        self._folder = state_folder
        self._save = save
        self._secret_folder = secret_folder or state_folder
        self._min_noise = min_noise
        self._reset_at: int | None = None
        self._spent_before = 0
        self._fingerprint = ""
        self._task: TaskLearner
        self._config: RunConfig
        self._effective: Overrides
        self._store: StateStore
        self._run = b""

    def perform(self, work: e.Work, progress: Progress) -> e.Event:
        """Does one piece of work; ``progress`` is called between its parts and may raise to stop it."""
        match work:
            case e.Build():
                return self.build(work)
            case e.Train():
                return self.train(work, progress)
            case e.Evaluate():
                return self.evaluate(work)
            case e.Onboard():
                return self.onboard(work, progress)
        raise TypeError(f"no such work: {type(work).__name__}")

    def build(self, work: e.Build) -> e.Built:
        """Makes environment and policy as the run says, with this agent's overrides.

        Raises:
            ProgramError: The run has too little noise for this agent, or nothing for its ``--save``.
        """
        config = msgspec.convert(work.config, RunConfig)
        _insist(self._min_noise, config.privacy)
        if self._save is not None and work.role == "train":
            _insist_on_saving(config.privacy)
        table = overrides_by_goal(config).get(self._goal, Overrides())
        overrides = merge(table, self._own)
        if self._run:
            self._spent_before += self._task.spent
        self._task = make_learner(config, self._goal, overrides)
        self._config, self._run, self._reset_at = config, work.run, None
        self._effective = overrides
        self._store = StateStore.of_agent(self._folder, work.run, self._goal, initial_state(self._task))
        self._fingerprint = self._fingerprint or fingerprint()
        task = self._task
        return e.Built(
            work.number,
            dimension=task.dimension,
            schema_sha256=schema_sha256(task.dimension, task.description),
            initial_sha256=params_sha256(initial_params(config, task)),
            fingerprint=self._fingerprint,
            stateful=bool(initial_state(self._task)),
            tags=self._store.tags(),
            seed=config.seed,
            overrides=overrides,
            description=task.description,
            private=config.privacy.noisy,
        )

    def train(self, work: e.Train, progress: Progress) -> e.Trained:
        """The update of a round; the state after it is stored before anybody can see the update."""
        state = self.state_before(work.last_counted, reset=work.state_reset)
        if work.control_reset:
            state = reset_own(state)
        task, privacy, sampled = self._task, self._config.privacy, self._task.spent
        update = private_update(
            task,
            work.params,
            state,
            self._config.seed,
            work.round,
            progress,
            work.control,
            privacy=privacy,
            secret=self._secret() if privacy.noisy else None,
        )
        # With noise, nobody may see that a step failed: then fewer were sampled than the update says.
        self._spent_before += update.trajectories - (task.spent - sampled)
        if update.state:
            self._store.put(work.round, update.state)
        spent = self._spent_before + self._task.spent
        crc = crc32(update.delta)
        return e.Trained(work.number, update.delta, crc, update.trajectories, spent, update.metrics)

    def _secret(self) -> bytes:
        return noise_secret(StateStore.of_agent(self._secret_folder, self._run, self._goal).folder)

    def _keeps_rows(self) -> bool:
        """Whether what it measures would say of its data what the noise of its updates hides."""
        trains = self._goal in overrides_by_goal(self._config)
        return self._min_noise > 0 or (self._config.privacy.noisy and trains)

    def state_before(self, last_counted: int, *, reset: bool = False) -> AgentState:
        """The agent state that follows round ``last_counted``; every other one is forgotten.

        A reset replaces the state for good, but it is written down only when a later round confirms it: a
        server that dies in between has no record of it, and must be told again that the state is missing.

        Raises:
            StateMissing: It is not here, and the server did not say that it may be reset.
        """
        initial = initial_state(self._task)
        if not initial:
            return initial
        self._store.keep_only(last_counted)
        if reset:
            self._reset_at = last_counted
            return initial
        if last_counted == 0:
            return initial
        state = self._store.get(last_counted)
        if state is None and self._reset_at == last_counted:
            self._store.put(last_counted, initial)
            state = initial
        if state is None:
            raise StateMissing(
                f"the agent state after round {last_counted} is missing in {self._store.folder}; "
                "start this agent again, it will tell the server so"
            )
        return state

    def evaluate(self, work: e.Evaluate) -> e.Measured:
        """Measures the shared parameters on this goal; with ``save``, keeps one adapted from them."""
        config, seed = self._config.onboarding, self._config.seed
        said: list[str] = []
        row, unsaved = self._task.evaluate(work.params, seed, config, said.append), ""
        if self._save:
            unsaved = self._adapt_and_keep(work)
        spent, private = int(row["trajectories"]), self._keeps_rows()
        return e.Measured(work.number, (row,), spent, unsaved, private, "".join(said))

    def onboard(self, work: e.Onboard, progress: Progress) -> e.Measured:
        """Adapts the initialization with every budget, beside the baselines."""
        config = self._config.onboarding
        said: list[str] = []
        found = self._task.onboard(work.params, self._config.seed, config, progress, said.append)
        unsaved = self._keep(work.round, work.params, found.params, max(config.m_adapt, default=0))
        spent, private = found.adapt_trajectories + found.eval_trajectories, self._keeps_rows()
        return e.Measured(work.number, tuple(found.rows), spent, unsaved, private, "".join(said))

    def _adapt_and_keep(self, work: e.Evaluate) -> str:
        """Keeps the shared parameters adapted as an evaluation adapts them; as `_keep`."""
        config, rng = self._config.onboarding, stream(self._config.seed, self._goal, 0, 0, Purpose.EVALUATE)
        adapted = self._task.fresh().adapt(
            work.params, config.adapt_episodes, rng, alpha=config.step_size, careful=config.careful
        )
        return self._keep(work.round, work.params, adapted, config.adapt_episodes)

    def _keep(self, round_: int, shared: F8, adapted: F8, m_adapt: int) -> str:
        """Writes the adapted policy, if that is wanted; returns why it could not. The rows stand anyway."""
        if self._save is None:
            return ""
        onboarding, alpha = self._config.onboarding, self._task.settings.inner_step_size
        about = {
            **describe(self._config, self._task, self._goal, self._effective),
            "run": self._run.hex(),
            "round": round_,
            "m_adapt": m_adapt,
            "careful": onboarding.careful,
            "step_size": alpha if onboarding.step_size is None else onboarding.step_size,
        }
        data = packed(PolicyFile(adapted, shared, about))
        try:
            write_atomic(self._save.resolve(), data, sync=True)  # a link stays one
        except OSError as error:
            return f"the policy cannot be saved to {self._save}: {error.strerror}"
        return ""


def _insist(wanted: float, privacy: Privacy) -> None:
    found = 0.0 if privacy.clip_norm == "off" else privacy.noise_multiplier
    if found < wanted:
        raise ProgramError(
            ExitCode.REFUSED,
            f"this agent insists on private noise of multiplier {wanted:g}, the run has {found:g}",
            "lower --min-noise, or train in a run with a higher privacy.noise_multiplier",
        )


def _insist_on_saving(privacy: Privacy) -> None:
    """An agent that trains is sent the final parameters when it is evaluated, if it is."""
    if privacy.noisy:
        why = "a run with private noise evaluates nothing: no agent that trains is sent what --save keeps"
        raise ProgramError(ExitCode.REFUSED, why, "train without --save; then --onboard --save")
