"""When a run ends early for want of agents: one rule for the server, the plain loop and `check`."""

from collections.abc import Collection, Iterable

from edge_fed.federated.record import RoundRecord

MAX_SKIPPED = 3  # skipped rounds in a row that end a run


def too_many_skipped(skipped: int) -> str:
    """Why a run ends after so many skipped rounds in a row; empty: it goes on."""
    return f"{MAX_SKIPPED} rounds in a row had too few updates" if skipped >= MAX_SKIPPED else ""


def never_trained(rounds: int, folded: int) -> str:
    """What a person must know of a run that came to its end and changed nothing; empty: it trained.

    Args:
        rounds: How many it has.
        folded: How many updates, or rounds with enough of them, counted.
    """
    if folded or not rounds:
        return ""
    which = f"none of the {rounds} rounds" if rounds > 1 else "the only round never"
    return f"{which} had enough updates, and the parameters are the initial ones"


def all_quarantined(quarantined: Collection[int], planned: Iterable[int], refusal: str) -> str:
    """Why a run ends in which nobody may be asked any more; empty: somebody may.

    Args:
        quarantined: Agents in quarantine.
        planned: The run's training agents.
        refusal: Why the agent that was quarantined last was refused; empty: not known.
    """
    if not set(quarantined).issuperset(planned):
        return ""
    why = refusal or 'see "missing" in metrics.jsonl'
    return f"every training agent is in quarantine; the last refusal: {why}"


def too_few_here(here: int, need: int, missing: Iterable[int]) -> str:
    """Why a run ends that waited in vain for agents to come."""
    names = ", ".join(map(str, missing)) or "nobody"
    return f"{here} training agents are here, {need} are needed; missing: {names}"


def last_refusal(record: RoundRecord) -> str:
    """Why the last of the agents that a round put in quarantine was refused; empty: it put none there."""
    return record.missing.get(record.quarantined[-1], "conflict") if record.quarantined else ""
