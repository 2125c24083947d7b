"""The proxies of a run: who gets one, and what they report."""

from pathlib import Path

from scenarios.proxy.fleet import Proxies
from scenarios.proxy.rules import Rule


async def test_only_agents_with_faults_have_a_proxy(tmp_path: Path) -> None:
    """The others get the server's own address: a fault costs them nothing."""
    proxies = Proxies({3}, tmp_path, 0)
    upstream = f"ipc://{tmp_path}/server"
    assert await proxies.address(1, upstream) == upstream
    place = await proxies.address(3, upstream)
    assert place == f"ipc://{tmp_path}/proxy-3"
    assert await proxies.address(3, upstream) == place, "a restarted agent finds the same place"
    tcp = Proxies({3}, tmp_path, 0)
    assert (await tcp.address(3, "tcp://127.0.0.1:9")).startswith("tcp://127.0.0.1:")
    await tcp.close()
    await proxies.close()


async def test_faults_may_be_armed_before_the_agent_starts(tmp_path: Path) -> None:
    """And what they did is reported by agent."""
    proxies = Proxies({3, 5}, tmp_path, 0)
    assert proxies and not Proxies((), tmp_path, 0)
    proxies.arm(3, Rule(kind="freeze"))
    proxies.heal(3, None)
    await proxies.close()
    assert proxies.report() == {
        "agents": {
            "3": {"connections": 0, "done": {"freeze both": 1}},
            "5": {"connections": 0, "done": {}},
        },
        "problems": [],
    }
