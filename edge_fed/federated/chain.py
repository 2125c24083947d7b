"""What the records of a run must be, whatever its updates were: all of `verify` that computes no update.

Who may be asked follows from the quarantine of the rounds before, the cohort from (seed, round, eligible),
and what agents are said to have done only those can have done that were there. So this much can be checked of
a run with private noise as well.
"""

from collections.abc import Iterable, Iterator

from edge_fed.config import RunConfig, overrides_by_goal
from edge_fed.federated.cohort import round_cohort
from edge_fed.federated.quarantine import Quarantine
from edge_fed.federated.record import RoundRecord
from edge_fed.federated.robust import needed_updates
from edge_fed.profiles import LOST, lost


class Chain:
    """Goes through the records of a run in order.

    Args:
        config: The run's settings.
        params_sha256: Of the initial parameters.

    Attributes:
        quarantine: After the records so far.
    """

    def __init__(self, config: RunConfig, params_sha256: str) -> None:
        self.quarantine = Quarantine(config.federation.quarantine_after)
        self._config = config
        self._planned = overrides_by_goal(config).keys()
        self._sha256 = params_sha256
        self._round = 0

    def ends(self, record: RoundRecord) -> str:
        """Why nothing after the last record can be compared; empty: this one is the next."""
        if record.round != self._round + 1:
            return f"round {self._round + 1} is missing from the records"
        if record.round > self._config.algorithm.rounds:
            return f"round {record.round} was recorded, the run has {self._config.algorithm.rounds}"
        if strangers := sorted(set(record.eligible) - self._planned):  # they have no task to compute with
            return f"eligible {strangers} were recorded, but these agents are in no [[agents]] table"
        return ""

    def faults(self, record: RoundRecord) -> Iterator[str]:
        """What the next record says that cannot be."""
        self._round = record.round
        yield from self._asked(record)
        yield from self._counted(record)
        yield from _unexplained(record)
        yield from _strangers(record)
        strays = {agent for agent, why in record.missing.items() if why == LOST}
        if extra := sorted(strays - lost(self._config, record.round, record.cohort)):
            yield (
                f"the updates of agents {extra} were recorded as lost on their way, none of them is drawn so"
            )
        quarantined = self.quarantine.judge(record)
        if record.quarantined != quarantined:
            yield f"quarantined {list(record.quarantined)} were recorded, {list(quarantined)} follow"
        if record.outcome == "skipped" and record.params_sha256 != self._sha256:
            yield f"params_sha256 {short(record.params_sha256)} was recorded, a skipped round changes none"
        self._sha256 = record.params_sha256

    def _asked(self, record: RoundRecord) -> Iterator[str]:
        noisy = self._config.privacy.noisy
        if record.private_noise != noisy:
            yield f"private_noise {record.private_noise} was recorded, the run's settings say {noisy}"
        if record.eligible != _ascending(record.eligible):
            yield f"eligible {list(record.eligible)} were recorded, not each once and ascending"
        admitted = self.quarantine.admitted(record.eligible)
        if extra := sorted(set(record.eligible) - set(admitted)):
            yield f"eligible {list(record.eligible)} were recorded, but {extra} are in quarantine"
        drawn = round_cohort(self._config, record.round, admitted)
        if record.cohort != drawn:
            yield f"cohort {list(record.cohort)} was recorded, {list(drawn)} is drawn"

    def _counted(self, record: RoundRecord) -> Iterator[str]:
        counted = tuple(part.agent for part in record.contributors)
        if counted != _ascending(counted):
            yield f"contributors {list(counted)} were recorded, not each once and ascending"
        if extra := sorted(set(counted) - set(record.cohort)):
            yield f"contributors {extra} were recorded, but these agents were not asked in that round"
        need = needed_updates(self._config, len(record.cohort))
        if record.outcome == "folded" and len(counted) < need:
            yield f"outcome folded was recorded with {len(counted)} updates, {need} are needed"
        if record.outcome == "skipped" and counted:
            yield f"outcome skipped was recorded, and contributors {list(counted)}"


def _ascending(agents: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(agents)))


def _strangers(record: RoundRecord) -> Iterator[str]:
    """Agents of which the record says what only an agent that was there, or that counted, can do."""
    for name in ("conflicts", "quarantined", "state_resets"):
        if extra := sorted(set(getattr(record, name)) - set(record.eligible)):
            yield f"{name} {extra} were recorded, but these agents were not eligible in that round"
    counted = {part.agent for part in record.contributors}
    if extra := sorted(record.overrides.keys() - counted):
        yield f"overrides of agents {extra} were recorded, but none of them counted in that round"
    marked = [agent for agents in record.fingerprints.values() for agent in agents]
    if extra := sorted(set(marked) - counted):
        yield f"fingerprints of agents {extra} were recorded, but none of them counted in that round"
    if twice := sorted({agent for agent in marked if marked.count(agent) > 1}):
        yield f"agents {twice} were recorded with two fingerprints"


def _unexplained(record: RoundRecord) -> Iterator[str]:
    """Excuses of agents that were not asked, and agents that were asked and neither counted nor excused."""
    if extra := sorted(set(record.missing) - set(record.cohort)):
        yield f"missing {extra} were recorded, but these agents are not in the cohort of that round"
    if record.outcome == "skipped":  # updates that came are neither counted nor missing
        return
    counted = {part.agent for part in record.contributors}
    if silent := sorted(set(record.cohort) - counted - record.missing.keys()):
        yield f"agents {silent} of the cohort were recorded neither as contributors nor as missing"
    if both := sorted(counted & record.missing.keys()):
        yield f"agents {both} were recorded as contributors and as missing"


def short(digest: str) -> str:
    """A hash as people read it."""
    return f"{digest[:12]}…" if digest else "nothing"
