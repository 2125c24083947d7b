"""Rounds over connections that lose, delay, cut and swallow: an update counts once, or its agent is excused.

Real programs, real sockets, the fault proxy between; all in one process. Times are scaled: heartbeats of
50 ms and a lease of half a second instead of 1 s and 5 s.
"""

from pathlib import Path
from typing import Any

import pytest

from agent.state_machine import MESSAGES
from protocol import messages as m
from scenarios.proxy.rules import Rule
from scenarios.verify import verify
from tests.integration.faulty import Run, running
from tests.scenarios.tiny import tiny

SCALED = ("algorithm.rounds=3", "agents.0.goals=0-2", "federation.heartbeat_s=0.05", "federation.lease_s=0.5")
WIDE = (
    "environment.family=navigation",
    "environment.args={}",
    "policy.name=mlp",
    "policy.args={ hidden = [250, 250] }",
    "onboarding.adapt_episodes=2",
    "onboarding.eval_episodes=2",
)


def counted_once(rounds: list[dict[str, Any]], run: Run) -> None:
    """Nobody is missing, each agent counts once per round, and the bits are those without a fault."""
    for line in rounds:
        assert [part["agent"] for part in line["contributors"]] == [0, 1, 2], line["missing"]
    assert [line["params_sha256"] for line in rounds] == run.plain_hashes()
    assert verify(run.folder.path).outcome == "equal"


@pytest.fixture
def acks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """(round, outcome) of every receipt of an update that an agent takes."""
    found: list[tuple[int, str]] = []
    take = MESSAGES[m.Ack]

    def spy(machine: Any, message: m.Ack, event: Any, now: float) -> None:
        found.append((message.round, message.outcome))
        take(machine, message, event, now)

    monkeypatch.setitem(MESSAGES, m.Ack, spy)
    return found


@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
async def test_a_connection_cut_within_an_update(scheme: str, tmp_path: Path) -> None:
    """[complaints 12] Half of the update arrives: the agent reconnects, sends it again, it counts once."""
    async with running(tmp_path, tiny("", *SCALED), holds=(2,), scheme=scheme) as run:
        await run.at(2, Rule(kind="cut", direction="up", only="UPDATE", count=1))
        counted_once(await run.end(), run)
        assert [run.agents[1].count("sent", round=number) for number in (1, 2, 3)] == [1, 2, 1]
        found = run.proxies.report()["agents"]["1"]
        assert found == {"connections": 2, "done": {"cut up UPDATE": 1}}


async def test_a_lost_update_is_sent_again(tmp_path: Path) -> None:
    """The answer to a later heartbeat shows that it was lost; the round does not wait for its deadline."""
    async with running(tmp_path, tiny("", *SCALED), holds=(2,)) as run:
        await run.at(2, Rule(kind="drop", direction="up", only="UPDATE", count=1))
        counted_once(await run.end(), run)
        assert run.agents[1].count("sent", round=2) == 2


async def test_a_lost_receipt(tmp_path: Path, acks: list[tuple[int, str]]) -> None:
    """[wire 22] The ACK is dropped while the round is open: the agent sends again, its weight counts once."""
    async with running(tmp_path, tiny("", *SCALED, "algorithm.aggregation=weighted"), holds=(2, 3)) as run:
        await run.told.until("held", round=2)
        run.agents[0].command({"command": "slow", "compute_delay_s": 0.3})  # the round stays open
        await run.at(2, Rule(kind="drop", direction="down", only="ACK", count=1))
        await run.agents[1].until("sent", times=2, round=2)
        await run.at(3)
        counted_once(await run.end(), run)
        assert run.proxies.report()["agents"]["1"]["done"] == {"drop down ACK": 1}
        assert (2, "duplicate") in acks
        assert run.summary()["duplicates"] == 1


async def test_a_late_receipt(tmp_path: Path, acks: list[tuple[int, str]]) -> None:
    """[complaints 55] The ACK comes after two leases: the agent sends again, the server has it already.

    Scaled from 10 s and a lease of 5 s: 1 s and a lease of 0.5 s.
    """
    async with running(tmp_path, tiny("", *SCALED), holds=(2, 3)) as run:
        await run.told.until("held", round=2)
        run.agents[0].command({"command": "slow", "compute_delay_s": 1.0})  # two steps: the round stays open
        await run.at(2, Rule(kind="delay", direction="down", only="ACK", seconds=1.0, count=1))
        await run.agents[1].until("sent", times=2, round=2)
        run.agents[0].command({"command": "slow", "compute_delay_s": 0.0})
        await run.at(3)
        counted_once(await run.end(), run)
        assert (2, "duplicate") in acks


async def test_the_same_update_twice(tmp_path: Path) -> None:
    """Every message comes twice, both ways: the second has an old number and changes nothing."""
    async with running(tmp_path, tiny("", *SCALED), holds=(2,)) as run:
        await run.at(2, Rule(kind="duplicate"))
        counted_once(await run.end(), run)
        assert run.proxies.report()["agents"]["1"]["done"]["duplicate up UPDATE"] == 2
        assert run.summary()["stale"] >= 2 and run.summary()["duplicates"] == 0


@pytest.mark.parametrize("direction", ["up", "both"])
async def test_a_half_open_connection(direction: Any, tmp_path: Path) -> None:
    """[wire 25] What is sent vanishes and nobody is told: the lease ends, the round closes without it."""
    async with running(tmp_path, tiny("", *SCALED), holds=(2,)) as run:
        await run.at(2, Rule(kind="half_open", direction=direction))
        rounds = await run.end()
        assert [line["missing"] for line in rounds] == [{}, {"1": "lease"}, {}]
        assert [line["eligible"] for line in rounds] == [[0, 1, 2], [0, 1, 2], [0, 2]]
        assert rounds[0]["params_sha256"] == run.plain_hashes()[0]
        assert verify(run.folder.path).outcome == "equal"
        assert [row["why"] for row in run.noted("lost")] == ["lease"]


async def test_an_agent_that_does_not_read(tmp_path: Path) -> None:
    """[wire 13] [complaints 68] The server says that it lags, others finish; it is back when it reads.

    Parameters of half a megabyte and 8 short answers fill its pipe; then sends fail visibly.
    """
    scenario = tiny("", *SCALED, *WIDE, "federation.round_deadline_s=1.5", "federation.lease_s=5")
    async with running(tmp_path, scenario, holds=(2, 3)) as run:
        await run.at(2, Rule(kind="freeze", direction="down"))
        await run.told.until("round", round=2)
        lagging = run.noted("lagging")
        assert lagging and {row["agent"] for row in lagging} == {1}
        await run.at(3)
        rounds = await run.end()
        assert [line["missing"] for line in rounds] == [{}, {"1": "deadline"}, {}]
        assert [len(line["contributors"]) for line in rounds] == [3, 2, 3]
        assert run.summary()["lagging"] >= len(lagging), "every message that was dropped is counted"
        assert verify(run.folder.path).outcome == "equal"
