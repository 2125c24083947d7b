"""The msgpack header: bytes that come from anybody."""

from protocol.errors import RemoteProtocolError
from protocol.header import find_fault, is_plain, pack, unpack
from tests.fuzz.memory import bounded
from tests.fuzz.same import same


def target(data: bytes) -> None:
    """A plain map that packs again to an equal one, or ``malformed``; never much memory."""
    try:
        plain = bounded(len(data), lambda: unpack(data))
    except RemoteProtocolError as error:
        assert type(error) is RemoteProtocolError and error.code == "malformed"
        assert 0 < len(str(error)) <= 500
        return
    assert is_plain(plain) and find_fault(plain) is None
    assert same(unpack(pack(plain, "TEST")), plain)
