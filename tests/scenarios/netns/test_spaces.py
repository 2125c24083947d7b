"""Namespaces: made, joined, and gone afterwards, whatever happens in between."""

import os
import re
import subprocess

import pytest

from protocol.link import LinkProfile
from scenarios.netns import spaces
from scenarios.netns.spaces import discipline, inside, network, unavailable

REASON = unavailable("relay")
needs_root = pytest.mark.skipif(bool(REASON), reason=REASON or "available")


@pytest.fixture
def left(monkeypatch):
    """What exists now of the namespaces and devices that this test has made."""
    made: list[str] = []

    def token_hex(nbytes: int) -> str:
        made.append(os.urandom(nbytes).hex())
        return made[-1]

    monkeypatch.setattr(spaces.secrets, "token_hex", token_hex)

    def now() -> set[str]:
        listed = [["ip", "netns", "list"], ["ip", "-o", "link", "show"]]
        text = " ".join(subprocess.run(c, capture_output=True, text=True, check=True).stdout for c in listed)
        return {name for name in re.findall(r"\bef-[0-9a-f]{8}[-0-9a-z]*", text) if name[3:11] in made}

    return now


def test_the_arguments_of_tc():
    """Delay, jitter on both sides of it, loss and rate; what the link does not have is not said."""
    link = LinkProfile(latency_s=0.05, jitter_s=0.02, bandwidth_bps=1e6, loss=0.015)
    assert " ".join(discipline(link, "netem")) == "netem delay 60000us 10000us loss 1.5% rate 1000000bit"
    assert " ".join(discipline(LinkProfile(latency_s=0.05), "netem")) == "netem delay 50000us"
    assert " ".join(discipline(link, "tbf")) == "tbf rate 1000000bit burst 2000 latency 10000ms"


@needs_root
@pytest.mark.parametrize("kind", ["netem", "relay", "tbf"])
def test_nothing_is_left(kind, left, monkeypatch):
    """After the block, after an error in it, and after an error in the middle of making it."""
    if why := unavailable(kind):
        pytest.skip(why)
    link = LinkProfile(latency_s=0.001, bandwidth_bps=1e6)
    with network(2, link, kind) as made:
        assert {made.server, *made.agents} == left()
    assert left() == set()
    with pytest.raises(RuntimeError), network(1, link, kind):
        raise RuntimeError
    assert left() == set()
    monkeypatch.setattr(spaces, "discipline", lambda *_: ["nonsense"])
    real_ip = spaces._ip

    def failing(*arguments: str) -> None:
        real_ip(*arguments)
        if "address" in arguments and "agent" in arguments:
            raise OSError("no more")

    monkeypatch.setattr(spaces, "_ip", failing)
    with pytest.raises((OSError, subprocess.CalledProcessError)), network(1, link, kind):
        raise AssertionError("it was made")
    assert left() == set()


@needs_root
def test_agents_reach_the_server_and_not_the_host():
    """A packet crosses; the namespace has no way to this machine's other networks."""
    with network(2, LinkProfile(latency_s=0.001), "relay") as made:
        for space, address in zip(made.agents, made.addresses, strict=True):
            routes = subprocess.run(
                inside(space, "ip", "route"), capture_output=True, text=True, check=True
            ).stdout
            assert "default" not in routes and address.rsplit(".", 1)[0] in routes
            code = f"import socket; socket.create_connection(('{address}', 9), 10)"
            found = subprocess.run(
                inside(space, "python3", "-c", code), capture_output=True, text=True, check=False
            )
            assert "ConnectionRefusedError" in found.stderr, "somebody answered that nobody listens there"


def test_without_root_the_reason_is_said(monkeypatch):
    """And nothing is tried."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert unavailable("relay") == "needs root"
