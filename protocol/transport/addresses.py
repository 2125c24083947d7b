"""Addresses: what they may look like, which are local, and whether a server may take them.

libzmq accepts some that cannot work (port 99999 is cut to 16 bits) and takes over the ipc path of a living
server without a word, so all of this is checked here first.
"""

import errno
import ipaddress
import os
import socket
import stat
from typing import NamedTuple

from protocol.errors import AddressError

IPC_PATH_MAX = 107
EXAMPLES = "write tcp://127.0.0.1:5555, ipc:///run/edge-fed/socket or inproc://name"
REASONS = {
    errno.EADDRINUSE: "another program uses it; stop that one or choose another (port 0: any free port)",
    errno.EADDRNOTAVAIL: "no interface of this machine has this address",
    errno.ENODEV: "no interface of this machine has this name; use its IP address",
    errno.EACCES: "not permitted; ports below 1024 and other users' folders need rights",
    errno.ENOENT: "its folder does not exist",
}


class Address(NamedTuple):
    """An address in parts.

    Attributes:
        scheme: tcp, ipc or inproc.
        host: Host of tcp without brackets, path of ipc, name of inproc.
        port: Port of tcp; 0: any free one; also 0 for the other schemes.
    """

    scheme: str
    host: str
    port: int = 0

    @property
    def is_ipv6(self) -> bool:
        """Whether the host is a literal IPv6 address."""
        return self.scheme == "tcp" and ":" in self.host


def parse(address: str, *, bind: bool) -> Address:
    """Takes an address apart.

    Args:
        address: E.g. ``tcp://127.0.0.1:5555``.
        bind: Whether a server binds it: then port 0, port ``*`` and host ``*`` are allowed.

    Raises:
        AddressError: It names no place that can be bound, or connected to.
    """
    scheme, separator, rest = address.partition("://")
    if not separator or not rest or scheme not in ("tcp", "ipc", "inproc"):
        raise AddressError(f"{address!r} is no address; {EXAMPLES}")
    if scheme == "tcp":
        return _parse_tcp(address, rest, bind)
    if scheme == "ipc" and len(os.fsencode(rest)) > IPC_PATH_MAX:
        raise AddressError(
            f"{address!r}: the path has {len(os.fsencode(rest))} bytes, a socket's may have {IPC_PATH_MAX}; "
            "use a shorter folder, e.g. under /tmp"
        )
    if scheme == "ipc" and rest == "*":
        raise AddressError(f"{address!r}: ipc needs a path; {EXAMPLES}")
    return Address(scheme, rest)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address: ipc, inproc, literal loopback, ``localhost``.

    Other names are not looked up: what they mean can change between the check and the use.

    Raises:
        AddressError: It is no address.
    """
    parts = parse(address, bind=True)
    if parts.scheme != "tcp" or parts.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.host).is_loopback
    except ValueError:
        return False


def claim_ipc(path: str) -> None:
    """Makes sure that nobody lives at an ipc path; a socket left by a dead server is no obstacle.

    Raises:
        AddressError: A server lives there, or the path is a file that is no socket.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return  # nothing there; whatever else is wrong, bind will say
    if not stat.S_ISSOCK(mode):
        raise AddressError(f"ipc://{path}: the file exists and is no socket; choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        outcome = probe.connect_ex(path)
    if outcome not in (errno.ECONNREFUSED, errno.ENOENT):
        raise AddressError(f"ipc://{path}: {REASONS[errno.EADDRINUSE]}")


def explain(address: str, error: OSError | Exception) -> AddressError:
    """Turns what libzmq said about an address into an error that says what to do."""
    number = getattr(error, "errno", None)
    reason = REASONS.get(number or 0) or os.strerror(number or errno.EINVAL)
    return AddressError(f"{address}: {reason}")


def _parse_tcp(address: str, rest: str, bind: bool) -> Address:
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not host or (":" in host) is not bracketed:
        raise AddressError(f"{address!r} needs a host and a port; {EXAMPLES}")
    if port == "*" and bind:
        port = "0"
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise AddressError(f"{address!r}: {port!r} is no port; ports are 1 to 65535")
    if not bind and (int(port) == 0 or host in ("*", "0.0.0.0", "::")):  # noqa: S104 (refused, not bound)
        raise AddressError(f"{address!r}: an agent needs the host and port of its server")
    return Address("tcp", host, int(port))
