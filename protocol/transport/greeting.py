"""Asks a server which security mechanism it uses: the first 64 bytes of ZMTP 3.1 (RFC 37) say it in clear."""

import asyncio
import contextlib

from protocol.errors import AddressError
from protocol.transport.addresses import parse

OURS = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03"  # signature and major version: the peer sends the rest
GREETING_BYTES = 64
MECHANISM = slice(12, 32)
PATIENCE_S = 1.5


async def mechanism_of(address: str) -> str:
    """The mechanism that a server names: ``NULL``, ``CURVE``; empty if nobody greets in `PATIENCE_S`."""
    writer = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await _open(address)
            writer.write(OURS)
            greeting = await reader.readexactly(GREETING_BYTES)
    except (OSError, EOFError, TimeoutError, AddressError):
        return ""
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    if greeting[0] != 0xFF or not greeting[9] & 1:
        return ""
    return greeting[MECHANISM].rstrip(b"\0").decode("ascii", "replace")


async def _open(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = parse(address, bind=False)
    if parts.scheme == "ipc":
        return await asyncio.open_unix_connection(parts.host.replace("@", "\0", 1))
    return await asyncio.open_connection(parts.host, parts.port)
