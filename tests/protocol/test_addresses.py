"""Addresses are checked before libzmq sees them; wrong ones say what to do."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from protocol.errors import AddressError
from protocol.transport import Context, ServerSocket, is_loopback
from protocol.transport.addresses import IPC_PATH_MAX, Address, parse


@pytest.fixture
def folder():
    """A folder with a short name: socket paths are limited."""
    with tempfile.TemporaryDirectory(prefix="ef") as name:
        yield Path(name)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("tcp://127.0.0.1:5555", Address("tcp", "127.0.0.1", 5555)),
        ("tcp://localhost:1", Address("tcp", "localhost", 1)),
        ("tcp://edge.example.org:65535", Address("tcp", "edge.example.org", 65535)),
        ("tcp://[::1]:5555", Address("tcp", "::1", 5555)),
        ("ipc:///run/x", Address("ipc", "/run/x")),
        ("ipc://@abstract", Address("ipc", "@abstract")),
        ("inproc://name", Address("inproc", "name")),
    ],
)
def test_addresses_that_both_sides_take(address, parts):
    """Scheme, host and port."""
    assert parse(address, bind=True) == parse(address, bind=False) == parts
    assert parts.is_ipv6 is ("[" in address)


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://[::]:1"],
)
def test_wildcards_are_for_servers(address):
    """An agent needs a real host and port."""
    assert parse(address, bind=True).scheme == "tcp"
    with pytest.raises(AddressError):
        parse(address, bind=False)


@pytest.mark.parametrize("bind", [True, False])
@pytest.mark.parametrize(
    "address",
    [
        "",
        "5555",
        "127.0.0.1:5555",
        "tcp:127.0.0.1:5555",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://:5555",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:http",
        "tcp://127.0.0.1:\u0663",
        "tcp://::1:5555",
        "tcp://[127.0.0.1]:5555",
        "udp://127.0.0.1:5555",
        "http://127.0.0.1:5555",
        "ipc://",
        "ipc://*",
        "ipc:///" + "x" * IPC_PATH_MAX,
        "ipc:///" + "\u00fc" * 60,
        "inproc://",
    ],
)
def test_invalid_addresses_are_refused_by_name(address, bind):
    """[wire 46] The message quotes the address."""
    with pytest.raises(AddressError) as caught:
        parse(address, bind=bind)
    assert repr(address) in str(caught.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("tcp://127.0.0.1:5555", True),
        ("tcp://127.9.9.9:5555", True),
        ("tcp://localhost:5555", True),
        ("tcp://[::1]:5555", True),
        ("ipc:///run/x", True),
        ("inproc://x", True),
        ("tcp://*:5555", False),
        ("tcp://0.0.0.0:5555", False),
        ("tcp://[::]:5555", False),
        ("tcp://192.168.1.7:5555", False),
        ("tcp://localhost.example.org:5555", False),
        ("tcp://127.0.0.1.example.org:5555", False),
        ("tcp://eth0:5555", False),
    ],
)
def test_loopback_is_literal(address, expected):
    """Names are not looked up."""
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://localhost:0", "tcp://[::1]:0"]
)
async def test_port_0_is_resolved(address):
    """The endpoint names the real port."""
    with Context() as context:
        server = ServerSocket.bind(context, address)
        assert parse(server.endpoint, bind=False).port > 0
        server.close()


@pytest.mark.parametrize("scheme", ["tcp", "ipc", "inproc"])
async def test_a_busy_address_is_refused(scheme, folder):
    """[wire 46] A second server does not start, and the first one's address is not taken over."""
    address = {"tcp": "tcp://127.0.0.1:0", "ipc": f"ipc://{folder}/s", "inproc": "inproc://s"}[scheme]
    with Context() as context:
        server = ServerSocket.bind(context, address)
        for _ in range(2):
            with pytest.raises(AddressError, match="another program uses it"):
                ServerSocket.bind(context, server.endpoint)
        server.close()


async def test_a_stale_socket_file_is_no_obstacle(folder):
    """[wire 46] A killed server leaves its file; the next one starts, and removes it at its end."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "s"))
    assert (folder / "s").is_socket()
    with Context() as context:
        server = ServerSocket.bind(context, f"ipc://{folder}/s")
        assert (folder / "s").stat().st_mode & 0o777 == 0o600
        server.close()
    assert not (folder / "s").exists()


async def test_a_file_is_never_taken_for_a_socket(folder):
    """It would be deleted by libzmq."""
    (folder / "data").write_text("precious")
    with Context() as context, pytest.raises(AddressError, match="is no socket"):
        ServerSocket.bind(context, f"ipc://{folder}/data")
    assert (folder / "data").read_text() == "precious"


async def test_a_successors_file_is_left_alone(folder):
    """A server that closes late does not remove what stands there now."""
    with Context() as context:
        server = ServerSocket.bind(context, f"ipc://{folder}/s")
        os.unlink(folder / "s")
        (folder / "s").write_text("another's")
        server.close()
    assert (folder / "s").read_text() == "another's"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("ipc:///nonexistent/folder/s", "folder does not exist"),
        ("tcp://192.0.2.1:5555", "no interface"),
        ("tcp://nonexistent0:5555", "no interface"),
    ],
)
async def test_what_libzmq_refuses_is_explained(address, why):
    """Cause and next step, not an errno; the socket does not leak."""
    with Context() as context, pytest.raises(AddressError, match=f"{address}: .*{why}"):
        ServerSocket.bind(context, address)
