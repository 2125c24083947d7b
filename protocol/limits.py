"""Every number that the wire bounds, with its reason. Sent to agents in WELCOME where they must know it."""

import math

import msgspec

MAGIC = b"EFED"
MAJOR = 1  # peers of another major are refused
MINOR = 2  # both sides use the lower one

PREAMBLE_BYTES = 8  # magic 4 | major u8 | minor u8 | flags u16
MAX_HEADER_BYTES = 64 * 1024  # checked before unpacking: a decoder's memory grows with its input
MAX_HEADER_DEPTH = 16
MAX_HEADER_CONTAINERS = 8192  # one byte each at least, but a hundred times as much as objects
MAX_TENSORS = 64
MAX_NAME_BYTES = 128
MAX_INTEGER = 2**63 - 1
CHUNK_BYTES = 1024 * 1024  # a ZMTP heartbeat is answered between frames only, so frames stay small
MAX_TENSOR_BYTES = 1024 * 1024 * 1024
FRAME_SLACK_BYTES = 64 * 1024
HIGH_WATER_MARK = 8  # whole messages; credit is one each way, so a full pipe is a lagging peer
MALFORMED_LIMIT = 10  # malformed messages in a row that end a session
DTYPES = ("<f8",)  # of tensors; never a dtype that the peer invented


class Limits(msgspec.Struct, frozen=True):
    """Limits and timings that the server sends and the agent must keep.

    Attributes:
        chunk_bytes: Largest tensor frame; at most `CHUNK_BYTES`, which an agent's socket is made for.
        max_tensor_bytes: Largest sum of a message's tensor bytes.
        heartbeat_s: An agent sends something at least this often.
        lease_s: Silence after which the server counts an agent as lost.
    """

    chunk_bytes: int = CHUNK_BYTES
    max_tensor_bytes: int = MAX_TENSOR_BYTES
    heartbeat_s: float = 1.0
    lease_s: float = 5.0

    def __post_init__(self) -> None:
        """Refuses chunks that a peer's socket would refuse, and times that mean nothing."""
        if not 1 <= self.chunk_bytes <= CHUNK_BYTES:
            raise ValueError(f"chunk_bytes = {self.chunk_bytes} is not in 1 to {CHUNK_BYTES}")
        if self.max_tensor_bytes < 0:
            raise ValueError(f"max_tensor_bytes = {self.max_tensor_bytes} is negative")
        for name, seconds in (("heartbeat_s", self.heartbeat_s), ("lease_s", self.lease_s)):
            if not 0 < seconds < math.inf:  # also NaN, with which no wait would ever end
                raise ValueError(f"{name} = {seconds} is no positive number of seconds")

    @property
    def max_frame_bytes(self) -> int:
        """What a socket accepts as one frame."""
        return max(self.chunk_bytes, MAX_HEADER_BYTES) + FRAME_SLACK_BYTES

    @property
    def max_frames(self) -> int:
        """Preamble, header, and the chunks of the largest message."""
        return 2 + MAX_TENSORS + self.max_tensor_bytes // self.chunk_bytes
