"""Lists of frames: what a socket hands over."""

from collections.abc import Sequence

from protocol.codec import Envelope, decode, encode
from protocol.errors import RemoteProtocolError, VersionMismatch
from protocol.limits import Limits
from tests.fuzz.framing import unframe
from tests.fuzz.memory import bounded
from tests.fuzz.same import same

LIMITS = Limits(chunk_bytes=64, max_tensor_bytes=512)


def target(data: bytes) -> None:
    """See `check`."""
    check(unframe(data))


def check(frames: Sequence[bytes]) -> Envelope | None:
    """A message that encodes again to an equal one, or an error with a code; never much memory.

    Returns:
        The message; None: it was refused.
    """
    size = sum(map(len, frames))
    try:
        envelope = bounded(size, lambda: decode(frames, LIMITS))
    except RemoteProtocolError as error:
        assert type(error) in (RemoteProtocolError, VersionMismatch)
        assert error.code in ("malformed", "unknown_type")
        assert 0 < len(str(error)) <= 500
        return None
    again = decode(encode(envelope.header, envelope.message, envelope.tensors, LIMITS), LIMITS)
    assert same(again.header, envelope.header)
    assert same(again.message, envelope.message)
    assert same(again.tensors, envelope.tensors)
    for array in envelope.tensors.values():
        assert array.flags.owndata and array.flags.aligned and array.flags.writeable
    assert same(decode(frames, LIMITS).message, envelope.message), "decoding is pure"
    return envelope
