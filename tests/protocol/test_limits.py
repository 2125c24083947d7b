"""The numbers that bound the wire."""

import pytest

from protocol.limits import CHUNK_BYTES, FRAME_SLACK_BYTES, MAX_HEADER_BYTES, MAX_TENSORS, Limits


def test_sockets_accept_the_largest_legal_frame():
    """A chunk or a header, whichever is larger, and some slack."""
    assert Limits().max_frame_bytes == CHUNK_BYTES + FRAME_SLACK_BYTES
    assert Limits(chunk_bytes=8).max_frame_bytes == MAX_HEADER_BYTES + FRAME_SLACK_BYTES


def test_frames_are_counted_for_the_largest_message():
    """Preamble, header, full chunks, and one part chunk per tensor."""
    assert Limits(chunk_bytes=10, max_tensor_bytes=95).max_frames == 2 + 9 + MAX_TENSORS


@pytest.mark.parametrize("size", [0, -1, CHUNK_BYTES + 1])
def test_chunks_are_never_larger_than_what_agents_accept(size):
    """An agent's socket is made before WELCOME tells it the server's limits."""
    with pytest.raises(ValueError, match=f"chunk_bytes = {size}"):
        Limits(chunk_bytes=size)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["heartbeat_s", "lease_s"])
def test_times_that_mean_nothing_are_refused(name, value):
    """A server's WELCOME must not put an agent into a wait without end, or into none at all."""
    with pytest.raises(ValueError, match=f"{name} = {value}"):
        Limits(**{name: value})


def test_no_message_is_smaller_than_nothing():
    """A negative limit is a mistake, not the end of all messages."""
    assert Limits(max_tensor_bytes=0).max_frames == 2 + MAX_TENSORS
    with pytest.raises(ValueError, match="max_tensor_bytes = -1"):
        Limits(max_tensor_bytes=-1)
