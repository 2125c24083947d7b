"""What an agent must agree on with this run before it may take part. Pure."""

from typing import Any

import msgspec

from edge_fed.config import Agents, Onboarding, Overrides, RunConfig, merge, overrides_by_goal
from edge_fed.errors import Fault
from edge_fed.federated.control_variate import initial_control
from edge_fed.federated.task import blueprint, initial_params
from edge_fed.params import F8, params_sha256, schema_sha256
from edge_fed.validation import check_run
from protocol.limits import MAJOR, MINOR
from protocol.messages import FEATURES, Ready, Register, Reject, Role

FLAGS = {
    "args": "--env-arg",
    "inner_batch": "--inner-batch",
    "hessian_batch": "--hessian-batch",
    "outer_batch": "--outer-batch",
    "curvature": "--curvature",
    "compute_delay_s": "--compute-delay",
    "link": "--link",
    "profile": "--profile",
    "completeness": "--completeness",
    "responsiveness": "--responsiveness",
    "device": "--device",
}
"""Overrides -> the agent's flag for it."""
MOST_LAYOUT = 4096  # signs, as a field of text holds


class Admission:
    """The run as its server knows it: the server owns no environment, only their common shape.

    Args:
        config: The run's settings, already checked.
        run_id: The run's id, 16 bytes.
    """

    def __init__(self, config: RunConfig, run_id: bytes) -> None:
        shape = blueprint(config)
        self.config = config
        self.run_id = run_id
        self.planned = overrides_by_goal(config)
        self.family = shape.family
        self.goals = shape.goals
        self.train_goals = shape.num_train
        self.dimension = shape.dimension
        self.description = shape.description
        self.schema_sha256 = schema_sha256(shape.dimension, shape.description)
        self.initial: F8 = initial_params(config, shape)
        self.initial.flags.writeable = False
        self.initial_sha256 = params_sha256(self.initial)
        self.control = initial_control(config, shape.dimension)
        self.features: tuple[str, ...] = ("control",) if self.control else ()
        self.config_values: dict[str, Any] = msgspec.to_builtins(config)

    def role(self, message: Register, training_over: bool) -> Role:
        """What this agent is in this run."""
        trains = message.role == "auto" and message.agent in self.planned and not training_over
        return "train" if trains else "onboard"

    def refuse(self, message: Register, minor: int = MINOR) -> Reject | None:
        """Checks a registration by a peer of this minor version against the run; None: welcome."""
        need = max((FEATURES[feature] for feature in self.features), default=0)
        if minor < need:
            return Reject(
                reason="version",
                message=f"this run needs the feature {', '.join(self.features)}, which the agent's protocol "
                "does not have; install a newer edge_fed on the agent's side",
                expected=f"protocol {MAJOR}.{need}",
                received=f"protocol {MAJOR}.{minor}",
            )
        if message.known_run not in (None, self.run_id):
            return Reject(
                reason="wrong_run",
                message="this server leads another run than the one this agent process took part in; to go "
                "on with that one, stop this server and start: python -m server --resume runs/<its folder>, "
                "with the same --bind; to join this one, start a new agent process",
                expected=self.run_id.hex(),
                received=message.known_run.hex() if message.known_run else "",
            )
        if message.agent >= self.goals:
            return Reject(
                reason="unknown_goal",
                message=f"family {self.family!r} has the goals 0 to {self.goals - 1} "
                f"(0 to {self.train_goals - 1} train); choose one of them with --goal",
                expected=f"0 to {self.goals - 1}",
                received=str(message.agent),
            )
        return None

    def overrides(self, message: Register, role: Role) -> Overrides | Reject:
        """The overrides that this agent works with: of its ``[[agents]]`` table, then its own.

        Whether it is a device, only the agent itself can say.
        """
        table = msgspec.structs.replace(self.planned.get(message.agent, Overrides()), device=None)
        if not message.overrides:
            return table
        if "attack" in message.overrides:
            return _bad_overrides("attack: is for [[agents]] of the run alone", message)
        try:
            merged = merge(table, msgspec.convert(message.overrides, Overrides))
        except msgspec.ValidationError as error:
            return _bad_overrides(str(error), message)
        fields = {name: getattr(merged, name) for name in Overrides.__struct_fields__}
        if role != "train":
            fields["device"] = None  # pace, day and bootstrap can be wrong for rounds of training alone
        alone = msgspec.structs.replace(
            self.config,
            agents=(Agents(goals=(message.agent,), **fields),),
            algorithm=msgspec.structs.replace(self.config.algorithm, rule="mean"),  # it needs no other agents
            federation=msgspec.structs.replace(self.config.federation, quorum=None, min_updates=None),
            onboarding=Onboarding(),
        )
        faults = [_of_flag(fault) for fault in check_run(alone)]
        return _bad_overrides("; ".join(faults), message) if faults else merged

    def unfit(self, message: Ready) -> Reject | None:
        """Checks what the agent has built; None: it fits."""
        if message.dimension != self.dimension:
            return Reject(
                reason="dimension",
                message=f"the run's parameters have {self.dimension} entries, this agent's "
                f"{message.dimension}; its environment or policy is another one",
                expected=self._layout(str(self.dimension)),
                received=str(message.dimension),
            )
        if message.schema_sha256 != self.schema_sha256:
            return Reject(
                reason="schema",
                message="this agent's policy has another layout of parameters; "
                "install the same edge_fed, and a policy's own file, on both sides",
                expected=self._layout(self.schema_sha256),
                received=message.schema_sha256,
            )
        if message.initial_sha256 != self.initial_sha256:
            return Reject(
                reason="environment",
                message="this agent computes other initial parameters from the same configuration; "
                "install the same edge_fed and NumPy, and what a policy of your own needs, on both sides",
                expected=self.initial_sha256,
                received=message.initial_sha256,
            )
        return None

    def _layout(self, short: str) -> str:
        """So that the agent can say which parameter differs; ``short`` where it is too long for a message."""
        return self.description if len(self.description) <= MOST_LAYOUT else short


def _bad_overrides(what: str, message: Register) -> Reject:
    why = f"agent {message.agent} cannot work with its own settings: {what}"
    return Reject(reason="overrides", message=why[:4000])


def _of_flag(fault: Fault) -> str:
    """The fault under the name that the agent's command line has for the setting."""
    path = fault.path.removeprefix("agents.0.")
    key, dot, below = path.partition(".")
    flag = FLAGS.get(key)
    return str(msgspec.structs.replace(fault, path=f"{flag}{' ' if dot else ''}{below}" if flag else path))
