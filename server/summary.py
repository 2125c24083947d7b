"""How a run ended, in one object: ``summary.json`` and the output of ``--json``. Pure."""

from typing import Any

from edge_fed.program.accountant import statement
from server import events as e
from server.recovery import Recovered
from server.state_machine import Machine


def summarize(
    machine: Machine,
    recovered: Recovered | None,
    done: e.Exit,
    counted: tuple[int, int],
    best: tuple[int, float] | None,
) -> dict[str, Any]:
    """The summary of a run.

    Args:
        machine: At its end.
        recovered: What earlier processes had left; None: there was none.
        done: How it ended.
        counted: Bytes sent and received by this process.
        best: The evaluated round with the highest meta objective, and that; None: nothing was evaluated.

    Returns:
        Plain values. ``initiator`` and ``timer``: see `server.causes`. ``trajectories``: of counted updates,
        by agent. ``trajectories_spent``: with discarded work. ``evaluation``: the newest average. ``best``:
        that of the best round, which ``keep_best`` keeps. ``onboarding``: all reported rows. ``privacy``:
        what the run's noise guarantees, see `edge_fed.program.accountant.statement`; None: it has none.
    """
    ledger, course = machine.room.ledger, machine.course
    committed = max(0, ledger.committed)
    earlier = (recovered.bytes_sent, recovered.bytes_received) if recovered else (0, 0)
    before = recovered.evaluation_trajectories if recovered else 0
    measuring = course.measuring
    reports = course.hosting.onboarding.reports.values()
    return {
        "name": machine.room.config.name,
        "run_id": machine.room.admission.run_id.hex(),
        "outcome": done.outcome,
        "exit_code": int(done.code),
        "why": done.why,
        **done.cause._asdict(),
        "rounds": committed,
        "planned_rounds": machine.room.last_round,
        "params_sha256": ledger.sha256,
        "aggregation": machine.room.config.algorithm.aggregation,
        "rule": machine.room.config.algorithm.rule,
        "quarantined": sorted(ledger.quarantine.agents),
        "correction": machine.room.config.algorithm.correction,
        "trajectories": {str(agent): n for agent, n in sorted(ledger.trajectories.items())},
        "trajectories_spent": {str(agent): s.total for agent, s in sorted(ledger.spent.items())},
        "evaluation_trajectories": before + measuring.trajectories,
        "onboarding_trajectories": sum(report["trajectories"] for report in reports),
        "bytes_sent": earlier[0] + counted[0],
        "bytes_received": earlier[1] + counted[1],
        "bit_equal": len(ledger.fingerprints) <= 1,
        "fingerprints": list(ledger.fingerprints),
        "malformed": machine.malformed,
        "stale": machine.stale,
        "duplicates": course.training.duplicates,
        "lagging": machine.lagging,
        "evaluation": measuring.latest or (recovered.latest_evaluation if recovered else {}),
        "best": {"round": best[0], "meta_objective": best[1]} if best else {},
        "onboarding": course.hosting.onboarding.rows(),
        "privacy": statement(
            machine.room.config.privacy, {agent: seen.count for agent, seen in ledger.released.items()}
        ),
    }
