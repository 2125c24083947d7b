"""The proxies of a run: one for each agent that its timeline disturbs; all others connect directly."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from protocol.transport.addresses import parse
from scenarios.proxy.proxy import Proxy
from scenarios.proxy.rules import Rule


class Proxies:
    """Faults may be armed before an agent first starts; they outlive its restarts and the server's.

    Args:
        agents: Whom the timeline disturbs.
        folder: Private, for listening places of ipc.
        seed: Of the run.
    """

    def __init__(self, agents: Collection[int], folder: Path, seed: int) -> None:
        self._folder = folder
        self._problems: list[str] = []
        self._proxies = {agent: Proxy(agent, seed, self._problems.append) for agent in sorted(agents)}

    def __bool__(self) -> bool:
        return bool(self._proxies)

    async def address(self, agent: int, upstream: str) -> str:
        """Where an agent finds the server: its proxy, of the same transport; without faults the server.

        Raises:
            AddressError: No place can be opened.
        """
        proxy = self._proxies.get(agent)
        if proxy is None:
            return upstream
        if not proxy.address:
            ipc = parse(upstream, bind=False).scheme == "ipc"
            place = f"ipc://{self._folder}/proxy-{agent}" if ipc else "tcp://127.0.0.1:0"
            await proxy.listen(place, upstream)
        return proxy.address

    def arm(self, agent: int, rule: Rule) -> None:
        """This fault is in force from now on.

        Raises:
            OpaqueStream: It acts on whole messages, and they are encrypted.
        """
        self._proxies[agent].arm(rule)

    def heal(self, agent: int, rule: Rule | None) -> None:
        """Ends this fault, or all."""
        self._proxies[agent].heal(rule)

    def report(self) -> dict[str, Any]:
        """Connections carried and how often each fault acted, by agent; and why connections were closed."""
        agents = {
            str(agent): {"connections": proxy.connections, "done": proxy.done}
            for agent, proxy in self._proxies.items()
        }
        return {"agents": agents, "problems": self._problems}

    async def close(self) -> None:
        """Ends everything."""
        for proxy in self._proxies.values():
            await proxy.close()
