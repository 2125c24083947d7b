"""Every record of an end says why, who brought it about, and which time ran out."""

from typing import get_args

import pytest

from edge_fed.program.exit_codes import ExitCode
from protocol import messages as m
from server import events as e
from server.causes import GONE, STOPS, Cause, Initiator, cause_of
from tests.server.fleet import Fleet, config
from tests.server.test_hosting import guest, skip_until_the_end

SETTINGS = config(
    rounds=20, onboard="7", quarantine_after="off", join_deadline_s=20.0, round_deadline_s=30.0, lease_s=5.0
)


def test_initiators_are_those_of_the_type() -> None:
    """And timers are settings, or constants that stand in capitals."""
    causes = [*GONE.values(), *STOPS.values()]
    assert {cause.initiator for cause in causes} <= set(get_args(Initiator))
    for timer in {cause.timer for cause in causes} - {"", "BUILD_S"}:
        table, key = timer.split(".")
        assert hasattr(getattr(SETTINGS, table), key)
    assert cause_of("error: round 3: lease") == GONE["error"]
    assert cause_of("a reason that is new") == Cause("server")


def gone(fleet: Fleet, agent: int) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """What the journal says of an agent that is gone, and that is excused: reason, initiator, timer."""
    lost, excused = (
        [(row[why], row["initiator"], row["timer"]) for row in fleet.journal(event) if row["agent"] == agent]
        for event, why in (("lost", "why"), ("excused", "reason"))
    )
    return lost, excused


def test_agents_that_are_gone_and_excused() -> None:
    """[complaints 57] A goodbye, an error, the supervisor's word, a lease, a deadline."""
    fleet = Fleet(config(agents="0-4", rounds=9, round_deadline_s=30.0, lease_s=5.0))
    bye, error, dead, silent, slow = fleet.started(0, 1, 2, 3, 4)
    bye.send(m.Bye(reason="battery"))
    error.send(m.Error(code="internal", message="round 1: KeyError"))
    fleet.event(e.DeclaredLost(2))
    fleet.live(31, error, slow, phase="training")
    by_agent, by_word = ("bye", "agent", ""), ("lost", "supervisor", "")
    by_lease = ("lease", "server", "federation.lease_s")
    assert gone(fleet, 0) == ([by_agent], [by_agent])
    assert gone(fleet, 1) == ([], [("error: round 1: KeyError", "agent", "")])
    assert gone(fleet, 2) == ([by_word], [by_word])
    assert gone(fleet, 3) == ([by_lease], [by_lease])
    assert gone(fleet, 4) == ([], [("deadline", "server", "federation.round_deadline_s")])
    assert silent.count(m.Shutdown) == dead.count(m.Shutdown) == 0


def test_a_run_that_nobody_joined() -> None:
    """[complaints 57] The deadline of joining ran out."""
    fleet = Fleet(SETTINGS)
    fleet.wait(21.0)
    assert fleet.exit.code == ExitCode.QUORUM
    assert fleet.exit.cause == ("server", "federation.join_deadline_s")


def test_a_run_with_too_few_updates() -> None:
    """What came of the rounds ended it, also if it waited for a report before."""
    for waits in (False, True):
        fleet = Fleet(SETTINGS)
        fleet.started(0, 1, 2)
        if waits:
            guest(fleet, 5, "now")
        skip_until_the_end(fleet)
        fleet.live(22, *fleet.agents)
        assert fleet.exit.why == "3 rounds in a row had too few updates"
        assert fleet.exit.cause == ("run", "")


def test_a_complete_run_without_an_announced_report() -> None:
    """It succeeds, and says which time ran out."""
    fleet = Fleet(config(rounds=0, onboard="7", join_deadline_s=20.0))
    fleet.started(0, 1, 2)
    fleet.wait(21.0)
    assert (fleet.exit.code, fleet.exit.cause) == (ExitCode.OK, ("server", "federation.join_deadline_s"))


@pytest.mark.parametrize(
    ("code", "initiator"),
    [
        (ExitCode.TERMINATED, "signal"),
        (ExitCode.INTERRUPTED, "signal"),
        (ExitCode.STOPPED, "supervisor"),
        (ExitCode.FAILED, "disk"),
    ],
)
def test_a_run_that_was_stopped(code: ExitCode, initiator: str) -> None:
    """By whom."""
    fleet = Fleet(SETTINGS)
    fleet.event(e.Stop("why", code))
    assert (fleet.exit.why, fleet.exit.cause) == ("why", (initiator, ""))
