"""Network namespaces of Linux: one for the server, one for each agent, and a link between each two.

Three kinds of link, all carrying the kernel's own TCP: ``netem`` and ``tbf`` are a veth pair with that
queueing discipline at both ends (``tbf`` knows a bandwidth only); ``relay`` is a pair of TUN devices joined
by `scenarios.netns.relay`. Needs root. Names are unique, and everything made is removed at the end; what a
kill -9 leaves is seen by ``ip netns list`` (names that begin with ef-).
"""

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from typing import Literal

import msgspec

from protocol.link import LinkProfile
from scenarios.netns.relay import Relay, open_tun

Kind = Literal["netem", "relay", "tbf"]
BURST_BYTES = 2000  # what tbf lets through at once: one packet
QUEUE_MS = 10_000  # how long a packet may wait in tbf


class Network(msgspec.Struct, frozen=True):
    """Namespaces that can reach each other.

    Attributes:
        server: The server's namespace.
        agents: Those of agents 0, 1, ...
        addresses: The server's IP address as each agent sees it.
    """

    server: str
    agents: tuple[str, ...]
    addresses: tuple[str, ...]


def inside(space: str, *command: str) -> list[str]:
    """The command, to be run in a namespace."""
    return ["ip", "netns", "exec", space, *command]


def unavailable(kind: Kind) -> str:
    """Why such a network cannot be made here; empty if it can. Tries it."""
    if os.geteuid() != 0:
        return "needs root"
    if not (shutil.which("ip") and shutil.which("tc")):
        return "needs the programs ip and tc (iproute2)"
    try:
        with network(1, LinkProfile(latency_s=0.001, bandwidth_bps=1e6), kind):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        return f"no {kind} here: {' '.join(said.split())}"


@contextlib.contextmanager
def network(agents: int, link: LinkProfile | None, kind: Kind, seed: int = 0) -> Iterator[Network]:
    """A namespace per program, and a link of this kind between the server's and each agent's.

    Args:
        agents: How many.
        link: None: no link at all, everybody on the loopback device of the server's namespace.
        kind: Of link.
        seed: Of the relay's losses and jitter.

    Raises:
        subprocess.CalledProcessError: ip or tc refused; its ``stderr`` says why.
        OSError: The kernel has no TUN, or the programs are not there.
    """
    name = f"ef-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        server = _space(stack, f"{name}-s")
        if link is None:
            yield Network(server, (server,) * agents, ("127.0.0.1",) * agents)
            return
        spaces = tuple(_space(stack, f"{name}-{k}") for k in range(agents))
        for k, space in enumerate(spaces):
            ends = ((server, f"srv{k}", f"10.77.{k}.1"), (space, "agent", f"10.77.{k}.2"))
            if kind == "relay":
                _join_by_relay(stack, [end[:2] for end in ends], link, seed + k)
            else:
                _join_by_veth([end[:2] for end in ends], link, kind)
            for there, device, address in ends:
                _ip("-n", there, "address", "add", f"{address}/24", "dev", device)
                _ip("-n", there, "link", "set", device, "up")
        yield Network(server, spaces, tuple(f"10.77.{k}.1" for k in range(agents)))


def discipline(link: LinkProfile, kind: Kind) -> list[str]:
    """The arguments of ``tc qdisc`` for one direction of the link."""
    rate = f"{round(link.bandwidth_bps)}bit"
    if kind == "tbf":
        return ["tbf", "rate", rate, "burst", str(BURST_BYTES), "latency", f"{QUEUE_MS}ms"]
    half_us = link.jitter_s / 2 * 1e6  # netem's jitter lies on both sides of the delay
    words = ["netem", "delay", f"{link.latency_s * 1e6 + half_us:.0f}us"]
    words += [f"{half_us:.0f}us"] if link.jitter_s else []
    words += ["loss", f"{100 * link.loss:g}%"] if link.loss else []
    return words + (["rate", rate] if link.bandwidth_bps else [])


def _space(stack: contextlib.ExitStack, name: str) -> str:
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "delete", name)
    _ip("-n", name, "link", "set", "lo", "up")
    return name


def _join_by_veth(ends: list[tuple[str, str]], link: LinkProfile, kind: Kind) -> None:
    """Devices that end with their namespaces."""
    (one, device), (other, peer) = ends
    _ip("link", "add", device, "netns", one, "type", "veth", "peer", "name", peer, "netns", other)
    for there, name in ends:
        _run("tc", "-n", there, "qdisc", "add", "dev", name, "root", *discipline(link, kind))


def _join_by_relay(
    stack: contextlib.ExitStack, ends: list[tuple[str, str]], link: LinkProfile, seed: int
) -> None:
    """Devices that end with the relay, which has their files."""
    names = [f"ef-{secrets.token_hex(4)}" for _ in ends]
    with contextlib.ExitStack() as opened:
        files = []
        for name in names:
            files.append(open_tun(name))
            opened.callback(os.close, files[-1])
        stack.callback(Relay(files[0], files[1], link, seed).close)
        opened.pop_all()
    for name, (there, device) in zip(names, ends, strict=True):
        _ip("link", "set", name, "netns", there, "name", device)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
