"""What the parts of the server's decisions share. Pure."""

from collections.abc import Callable
from typing import get_args

import msgspec

from edge_fed.federated.task import blueprint
from server import events as e
from server.admission import Admission
from server.ledger import Ledger
from server.members import Members
from server.outbox import Outbox
from server.reception import Reception
from server.rows import Rules
from server.watch import Watch


class Room:
    """The run, who is here, what is committed, what is waited for, and where commands go.

    Args:
        admission: The run.
        ledger: What is committed.
        new_id: Makes fresh 16-byte session ids.

    Attributes:
        rules: What agents may report.
        needed: Rounds whose checkpoints onboarders wait for.
        committing: A checkpoint is being written: the newest parameters do not count yet.
        armed: Points of rounds at which this process is to kill itself (crash tests).
    """

    def __init__(self, admission: Admission, ledger: Ledger, new_id: Callable[[], bytes]) -> None:
        self.admission = admission
        self.config = admission.config
        self.ledger = ledger
        self.out = Outbox(admission.run_id)
        self.members = Members(admission.config.federation.lease_s)
        self.reception = Reception(admission, self.members, ledger, self.out, new_id)
        self.watch = Watch()
        self.rules = Rules(admission.config, blueprint(admission.config))
        self.needed: Callable[[], frozenset[int]] = frozenset
        self.committing = False
        self.armed: set[tuple[e.KillPoint, int]] = set()

    @property
    def last_round(self) -> int:
        """K."""
        return self.config.algorithm.rounds

    def commit(self, command: e.Commit) -> None:
        """Asks for a checkpoint."""
        self.committing = True
        control, die, needed = self.ledger.control_value, self.doomed(command.round), self.needed()
        self.out.put(msgspec.structs.replace(command, control=control, die=die, needed=needed))

    def doomed(self, round_: int) -> e.CommitPoint | None:
        """The step of this round's commit at which the supervisor wants this process dead."""
        points: tuple[e.CommitPoint, ...] = get_args(e.CommitPoint)
        return next((point for point in points if (point, round_) in self.armed), None)

    def kill(self, point: e.KillPoint, round_: int) -> None:
        """Dies here if the supervisor wants it so."""
        if (point, round_) in self.armed:
            self.armed.discard((point, round_))
            self.out.put(e.Die())
