"""Messages to frames and back."""

import tracemalloc

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import messages as m
from protocol.codec import DEFAULT_LIMITS, OURS, PREAMBLE, TYPES, decode, encode, reject_version
from protocol.errors import LocalProtocolError, RemoteProtocolError, VersionMismatch
from protocol.limits import MAGIC, MAJOR, MAX_HEADER_BYTES, MINOR, Limits
from tests.protocol.samples import ID, SAMPLES
from tests.protocol.strategies import headers, records, tensors

VECTOR = np.arange(5.0)
UPDATE = SAMPLES[m.Update]


def carried(kind):
    """Tensors for a message of this type."""
    return dict.fromkeys(m.TENSORS.get(kind, ()), VECTOR)


def header_map(frames):
    """The header of encoded frames as a plain map."""
    return msgpack.unpackb(frames[1])


def with_header(change, kind=m.Update):
    """Frames of a valid message whose header map was changed by ``change``."""
    frames = encode(m.Header(), SAMPLES[kind], carried(kind))
    plain = header_map(frames)
    change(plain)
    return [frames[0], msgpack.packb(plain), *frames[2:]]


def fault(frames, limits=DEFAULT_LIMITS):
    """The code with which decoding these frames fails."""
    with pytest.raises(RemoteProtocolError) as caught:
        decode(frames, limits)
    assert len(str(caught.value)) <= 500
    return caught.value.code


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES.keys())
@given(st.data())
def test_every_type_survives_a_round_trip(kind, data):
    """Whatever a record can hold arrives as it was sent, with its header and tensors."""
    header, message, arrays = data.draw(st.tuples(headers, records(kind), tensors(kind)))
    chunk = data.draw(st.integers(1, 100))
    envelope = decode(encode(header, message, arrays, Limits(chunk_bytes=chunk)), Limits(chunk_bytes=chunk))
    assert (envelope.header, envelope.message, envelope.minor) == (header, message, MINOR)
    assert list(envelope.tensors) == list(arrays)
    for name, array in arrays.items():
        assert envelope.tensors[name].tobytes() == array.tobytes()


def test_bytes_are_those_of_the_specification():
    """A PING, byte by byte as the specification describes it."""
    header = m.Header(session=ID, seq=7, run=ID[::-1], committed=2)
    expected = (
        b"\x86"
        b"\xa7session\xc4\x10" + ID + b"\xa3seq\x07" + b"\xa3run\xc4\x10" + ID[::-1] + b"\xa9committed\x02"
        b"\xa7message\x81\xa1t\xa4PING" + b"\xa7tensors\x90"
    )
    assert encode(header, m.Ping()) == [b"EFED\x01\x02\x00\x00", expected]


def test_chunks_are_the_vector_in_little_endian_order():
    """The frames after the header hold the float64 bytes, cut at the chunk size."""
    frames = encode(m.Header(), UPDATE, {"delta": np.array([1.0, -2.0])}, Limits(chunk_bytes=12))
    assert [bytes(chunk) for chunk in frames[2:]] == [
        b"\0\0\0\0\0\0\xf0\x3f" + b"\0\0\0\0",
        b"\0\0\0\xc0",
    ]
    assert header_map(frames)["tensors"] == [{"name": "delta", "dtype": "<f8", "count": 2, "chunks": 2}]


def test_encoding_copies_no_tensor():
    """The chunks are views of the array."""
    vector = np.zeros(1000)
    frames = encode(m.Header(), UPDATE, {"delta": vector})
    assert np.shares_memory(np.frombuffer(frames[2]), vector)


@pytest.mark.parametrize("count", [0, 1, 45, 361, 1000])
def test_decoded_arrays_are_owned_aligned_and_writeable(count):
    """[wire 4, 48] Even from unaligned read-only frames; writing changes neither them nor another copy."""
    frames = encode(m.Header(), UPDATE, {"delta": np.arange(float(count))})
    unaligned = [memoryview(b"x" + bytes(frame))[1:] for frame in frames]
    first, second = decode(unaligned).tensors["delta"], decode(unaligned).tensors["delta"]
    assert first.flags.owndata and first.flags.aligned and first.flags.writeable and first.flags.c_contiguous
    assert first.dtype == np.dtype("<f8") and first.shape == (count,)
    first += 1.0
    assert (second == np.arange(float(count))).all()
    assert (decode(unaligned).tensors["delta"] == second).all()


@pytest.mark.parametrize(("room", "copied"), [(8 * 10**6, True), (8 * 10**6 - 1, False), (0, False)])
def test_what_is_beyond_the_room_of_its_sender_takes_no_memory(room, copied):
    """The header alone decides; the arrays have the shape that was sent, and nothing in them."""
    sent = m.Header(session=ID, seq=1)
    frames = encode(sent, UPDATE, {"delta": np.ones(10**6)})
    asked = []
    tracemalloc.start()
    try:
        envelope = decode(frames, room=lambda header: asked.append(header) or room)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert asked == [sent]
    assert envelope.tensors["delta"].shape == (10**6,)
    assert envelope.tensors["delta"].sum() == (10**6 if copied else 0)
    assert (peak > 8 * 10**6) is copied
    assert peak < 8 * 10**6 + 10**5


def test_what_is_beyond_the_room_is_checked_as_any_other():
    """A lying entry is malformed, whoever sent it; a message without tensors asks for no room."""

    def lie(plain):
        plain["tensors"][0]["count"] = 10**12

    with pytest.raises(RemoteProtocolError, match="elements announced"):
        decode(with_header(lie), room=lambda _header: 0)
    assert decode(encode(m.Header(), m.Ping()), room=lambda _header: pytest.fail("asked")).tensors == {}


def test_read_only_arrays_can_be_sent():
    """A published theta is read-only."""
    vector = np.arange(3.0)
    vector.flags.writeable = False
    assert (decode(encode(m.Header(), UPDATE, {"delta": vector})).tensors["delta"] == vector).all()


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.arange(10.0)[::2], "not contiguous"),
        (np.arange(10.0)[::-1], "not contiguous"),
        (np.zeros((2, 3)), r"<f8\[2, 3\], not a vector"),
        (np.zeros((2, 3)).T, r"<f8\[3, 2\], not a vector"),
        (np.float64(3.0), "float64, not a numpy array"),
        (np.array(3.0), r"<f8\[\], not a vector"),
        (np.zeros(3, dtype="<f4"), "<f4"),
        (np.zeros(3, dtype="f2"), "<f2"),
        (np.zeros(3, dtype=">f8"), ">f8"),
        (np.zeros(3, dtype="<i8"), "<i8"),
        (np.zeros(3, dtype=bool), "|b1"),
        (np.zeros(3, dtype=complex), "<c16"),
        (np.array([None, 1.0]), r"\|O"),
        (np.ma.masked_array([1.0]), "MaskedArray, not a numpy array"),
        ([1.0, 2.0], "list, not a numpy array"),
        (memoryview(b"12345678"), "memoryview, not a numpy array"),
    ],
)
def test_arrays_that_would_arrive_scrambled_are_refused(array, why):
    """[wire 7] Anything but a contiguous little-endian float64 vector is refused by name before it leaves."""
    with pytest.raises(LocalProtocolError, match=rf"UPDATE\.delta is .*{why}"):
        encode(m.Header(), UPDATE, {"delta": array})


@pytest.mark.parametrize("names", [(), ("params",), ("delta", "more"), ("more", "delta")])
def test_other_tensors_than_the_types_are_refused(names):
    """A message carries exactly its type's tensors, on both sides."""
    with pytest.raises(LocalProtocolError, match=r"UPDATE carries the tensors \['delta'\]"):
        encode(m.Header(), UPDATE, dict.fromkeys(names, VECTOR))

    def rename(plain):
        plain["tensors"] = [{"name": n, "dtype": "<f8", "count": 5, "chunks": 1} for n in names]

    assert fault(with_header(rename)[:2] + [VECTOR.tobytes()] * len(names)) == "malformed"


@pytest.mark.parametrize(
    "names", [("control",), ("control", "params"), ("params", "delta"), ("params", "control", "delta")]
)
def test_an_optional_tensor_stands_behind_the_others_or_nowhere(names):
    """THETA carries params, or params and control in this order; anything else is refused on both sides."""
    arrays = {"params": VECTOR, "control": -VECTOR}
    there = decode(encode(m.Header(), SAMPLES[m.Theta], arrays, Limits(chunk_bytes=12)))
    assert {name: array.tolist() for name, array in there.tensors.items()} == {
        name: array.tolist() for name, array in arrays.items()
    }
    with pytest.raises(LocalProtocolError, match=r"\['params', 'control \(optional\)'\], not"):
        encode(m.Header(), SAMPLES[m.Theta], dict.fromkeys(names, VECTOR))

    def rename(plain):
        plain["tensors"] = [{"name": n, "dtype": "<f8", "count": 5, "chunks": 1} for n in names]

    frames = with_header(rename, m.Theta)[:2] + [VECTOR.tobytes()] * len(names)
    assert fault(frames) == "malformed"


def test_all_tensors_of_a_message_share_one_limit():
    """Two vectors that fit alone do not fit together."""
    theta, both = SAMPLES[m.Theta], {"params": VECTOR, "control": VECTOR}
    limits = Limits(max_tensor_bytes=2 * VECTOR.nbytes - 1)
    encode(m.Header(), theta, {"params": VECTOR}, limits)
    with pytest.raises(LocalProtocolError, match="of 80 bytes, the limit is 79"):
        encode(m.Header(), theta, both, limits)
    assert fault(encode(m.Header(), theta, both), limits) == "malformed"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"round": np.int64(3)}, r"message\.round is a numpy\.int64"),
        ({"round": np.bool_(True)}, r"message\.round is a numpy\.bool"),
        ({"round": 2**63}, r"message\.round is an integer of more than 63 bits"),
        ({"round": 2**64}, r"message\.round is an integer of more than 63 bits"),
        ({"round": -1}, r"\$\.round"),
        ({"round": True}, r"\$\.round"),
        ({"round": 3.0}, r"\$\.round"),
        ({"round": None}, r"\$\.round"),
        ({"crc32": 2**32}, r"\$\.crc32"),
        ({"metrics": {"norm": np.float32(1)}}, r"message\.metrics\.norm is a numpy\.float32"),
        ({"metrics": {"norm": np.float64(1)}}, r"message\.metrics\.norm is a numpy\.float64"),
        ({"metrics": {"norm": VECTOR}}, r"message\.metrics\.norm is a numpy\.ndarray"),
        ({"metrics": {"norm": "high"}}, r"\$\.metrics"),
        ({"metrics": {1: 2.0}}, r"message\.metrics has a key of type int"),
        ({"metrics": [1.0]}, r"\$\.metrics"),
    ],
)
def test_values_that_the_wire_cannot_carry_are_named(changes, why):
    """[wire 34] Numpy scalars, large integers and wrong types are refused by the path of their field."""
    fields = {"round": 1, "theta_crc32": 5, "crc32": 6, "trajectories": 1, "trajectories_spent": 1}
    with pytest.raises(LocalProtocolError, match=f"UPDATE cannot be sent: .*{why}"):
        encode(m.Header(), m.Update(**(fields | changes)), {"delta": VECTOR})


def test_wrong_header_fields_are_named():
    """The session fields are checked like the message's."""
    with pytest.raises(LocalProtocolError, match=r"PING cannot be sent: seq is an integer of more"):
        encode(m.Header(seq=2**63), m.Ping())
    with pytest.raises(LocalProtocolError, match=r"\$\.session"):
        encode(m.Header(session=b"x" * 17), m.Ping())


def test_records_that_are_no_messages_are_refused():
    """Only the closed set of types can be sent."""

    class Gossip(m.Message, frozen=True, kw_only=True, tag="PING"):
        pass

    with pytest.raises(LocalProtocolError, match="Gossip is no message type"):
        encode(m.Header(), Gossip())


def test_headers_are_at_most_64_kib():
    """[wire 32] The exact limit passes on both sides, one byte more on neither."""

    def shutdown_config(size):
        fields = {"role": "train", "limits": {}, "initial_sha256": "0" * 64}
        return m.Welcome(config={"x": "y" * size}, **fields)

    fixed = len(encode(m.Header(), shutdown_config(65000))[1]) - 65000
    largest = encode(m.Header(), shutdown_config(MAX_HEADER_BYTES - fixed))
    assert len(largest[1]) == MAX_HEADER_BYTES
    assert decode(largest).message == shutdown_config(MAX_HEADER_BYTES - fixed)
    with pytest.raises(LocalProtocolError, match="65537 bytes"):
        encode(m.Header(), shutdown_config(MAX_HEADER_BYTES - fixed + 1))
    assert fault([OURS, largest[1] + b"\0"]) == "malformed"


def test_tensors_are_at_most_the_limit():
    """[wire 41] [complaints 48] One element too many is refused on both sides."""
    limits = Limits(max_tensor_bytes=40)
    assert decode(encode(m.Header(), UPDATE, {"delta": VECTOR}, limits), limits).tensors["delta"].size == 5
    with pytest.raises(LocalProtocolError, match=r"UPDATE: tensors \['delta'\] of 48 bytes, the limit is 40"):
        encode(m.Header(), UPDATE, {"delta": np.zeros(6)}, limits)
    assert fault(encode(m.Header(), UPDATE, {"delta": np.zeros(6)}), limits) == "malformed"


def test_fifty_million_elements_are_no_special_case():
    """[wire 32] [complaints 48] 400 MB, in chunks of 1 MiB, within the default limits."""
    vector = np.zeros(50_000_000)  # never written: it costs no memory here
    frames = encode(m.Header(), UPDATE, {"delta": vector})
    assert len(frames) == 2 + 382
    delta = decode(frames).tensors["delta"]
    assert delta.size == 50_000_000 and not delta.any()


def test_sizes_are_bytes_even_for_views_of_floats():
    """[wire 9] A float64 view of two elements has 16 bytes, not 2: the chunk limit counts bytes."""
    frames = [*with_header(lambda plain: plain["tensors"][0].update(count=2))[:2], memoryview(np.zeros(2))]
    assert decode(frames, Limits(chunk_bytes=16)).tensors["delta"].size == 2
    assert fault(frames, Limits(chunk_bytes=15)) == "malformed"


@pytest.mark.parametrize(
    "entries",
    [
        [{"name": "delta", "dtype": "<f8", "count": 6, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": 4, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": 2**62, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": -1, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": 5.0, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": 5, "chunks": 0}],
        [{"name": "delta", "dtype": "<f8", "count": 5, "chunks": 2}],
        [{"name": "delta", "dtype": "<f8", "count": 5, "chunks": 2**62}],
        [{"name": "delta", "dtype": "<f4", "count": 10, "chunks": 1}],
        [{"name": "delta", "dtype": "|O", "count": 5, "chunks": 1}],
        [{"name": "delta", "dtype": "f8,O", "count": 5, "chunks": 1}],
        [{"name": "delta", "dtype": ">f8", "count": 5, "chunks": 1}],
        [{"name": "params", "dtype": "<f8", "count": 5, "chunks": 1}],
        [{"name": "x" * 129, "dtype": "<f8", "count": 5, "chunks": 1}],
        [{"name": "delta", "dtype": "<f8", "count": 5, "chunks": 1}] * 2,
        [{"name": "delta", "dtype": "<f8", "count": 5, "chunks": 1}] * 65,
        [{"name": "delta", "dtype": "<f8", "chunks": 1}],
        [["delta", "<f8", 5, 1]],
        {},
        None,
        [],
    ],
)
def test_lying_tensor_entries_are_refused(entries):
    """Names, sizes, counts and dtypes must fit the frames exactly."""
    assert fault(with_header(lambda plain: plain.update(tensors=entries))) == "malformed"


@pytest.mark.parametrize(
    "cut",
    [
        lambda frames: frames[:2],
        lambda frames: [*frames[:-1], b""],
        lambda frames: [*frames, b""],
        lambda frames: [*frames, b"12345678"],
        lambda frames: [*frames[:-1], bytes(frames[-1])[:-1]],
        lambda frames: [*frames[:-1], bytes(frames[-1]) + b"x"],
        lambda frames: [*frames[:-1], bytes(frames[-1])[:8], bytes(frames[-1])[8:]],
        lambda frames: frames[:1],
        lambda frames: [],
        lambda frames: frames[1:],
        lambda frames: [frames[0], b"", *frames[2:]],
        lambda frames: [frames[0], bytes(frames[1])[:-1], *frames[2:]],
        lambda frames: [frames[0], bytes(frames[1]) + b"\xc0", *frames[2:]],
        lambda frames: [frames[0], bytes(frames[1]) * 2, *frames[2:]],
        lambda frames: frames + [b"x"] * DEFAULT_LIMITS.max_frames,
    ],
)
def test_torn_messages_are_refused(cut):
    """Missing, extra, empty, cut and glued frames."""
    assert fault(cut(encode(m.Header(), UPDATE, {"delta": VECTOR}))) == "malformed"


def test_a_tensor_twice_is_refused():
    """Even if its chunks are there twice, too."""
    frames = with_header(lambda plain: plain.update(tensors=plain["tensors"] * 2))
    assert fault([*frames, frames[-1]]) == "malformed"


def test_messages_without_tensors_carry_none():
    """No chunk that nothing announces, and no entry for a tensor that the type does not have."""
    assert fault([*encode(m.Header(), m.Ping()), b"12345678"]) == "malformed"
    empty = [{"name": "delta", "dtype": "<f8", "count": 0, "chunks": 0}]
    assert fault(with_header(lambda plain: plain.update(tensors=empty), m.Ping)) == "malformed"


def test_empty_chunks_are_refused():
    """They would be a flood that no size limit sees."""
    frames = with_header(lambda plain: plain["tensors"][0].update(chunks=2))
    with pytest.raises(RemoteProtocolError, match="chunks of 0 to 40 bytes"):
        decode([*frames, b""])


def test_too_many_frames_are_refused_by_their_number():
    """Before any of them is read."""
    with pytest.raises(RemoteProtocolError, match="1091 frames, 2 to 1090 are allowed"):
        decode([b""] * 1091)


@pytest.mark.parametrize("preamble", [b"", b"EFED", OURS[:-1], OURS + b"\0", b"XFED" + OURS[4:], b"\0" * 8])
def test_garbage_preambles_are_refused(preamble):
    """[wire 47] Another program's bytes are no version mismatch."""
    assert fault([preamble, encode(m.Header(), m.Ping())[1]]) == "malformed"


@pytest.mark.parametrize("major", [0, 2, 255])
def test_another_major_is_named_and_answered(major):
    """[wire 47] Nothing behind the preamble is read; both versions are named; REJECT comes in our major."""
    with pytest.raises(VersionMismatch, match=rf"{major}\.9, this program {MAJOR}\.{MINOR}") as caught:
        decode([PREAMBLE.pack(MAGIC, major, 9, 77), b"\xc1 no msgpack"])
    assert (caught.value.major, caught.value.minor) == (major, 9)
    answer = encode(m.Header(), reject_version(caught.value))
    assert bytes(answer[0]) == OURS
    reject = decode(answer).message
    assert (reject.reason, reject.received) == ("version", f"protocol {major}.9")


def test_another_minor_is_accepted_and_told():
    """[wire 47] Within a major the receiver decides what to use, from the sender's minor."""
    frames = encode(m.Header(), m.Ping())
    assert decode([PREAMBLE.pack(MAGIC, MAJOR, 9, 0), frames[1]]).minor == 9


def test_flags_that_nobody_agreed_on_are_refused():
    """They could change what the bytes mean."""
    assert fault([PREAMBLE.pack(MAGIC, MAJOR, MINOR, 1), encode(m.Header(), m.Ping())[1]]) == "malformed"


def test_unknown_keys_are_ignored():
    """A later minor version may add fields anywhere."""

    def extend(plain):
        plain["more"] = plain["message"]["more"] = plain["tensors"][0]["more"] = [1, {"x": None}]

    assert decode(with_header(extend)).message == UPDATE


def test_unknown_types_have_a_code_of_their_own():
    """The connection stays, and the peer can tell."""
    assert fault(with_header(lambda plain: plain["message"].update(t="GOSSIP"), m.Ping)) == "unknown_type"


@pytest.mark.parametrize(
    "change",
    [
        {"message": None},
        {"message": []},
        {"message": {}},
        {"message": {"t": 3}},
        {"message": {"t": ["PING"]}},
        {"message": {"t": "UPDATE"}},
        {"seq": -1},
        {"seq": 2**63},
        {"seq": "1"},
        {"seq": True},
        {"session": "A" * 16},
        {"session": b"x" * 17},
        {"run": None},
    ],
)
def test_wrong_fields_are_refused(change):
    """[complaints 31] Types are strict: no conversion, no missing field, no base64."""
    assert fault(with_header(lambda plain: plain.update(change), m.Ping)) == "malformed"


def test_identifiers_are_bytes_of_the_right_length():
    """A base64 string is no identifier."""
    for wrong in ("AAAAAAAAAAAAAAAAAAAAAA==", b"x" * 15, None):

        def change(plain, wrong=wrong):
            plain["message"]["incarnation"] = wrong

        assert fault(with_header(change, m.Register)) == "malformed"


def test_metrics_may_be_nan():
    """A diverged agent must be able to say so; the receiver judges."""
    fields = {"round": 1, "theta_crc32": 5, "crc32": 6, "trajectories": 1, "trajectories_spent": 1}
    message = m.Update(metrics={"norm": float("nan"), "ratio": float("inf")}, **fields)
    found = decode(encode(m.Header(), message, {"delta": VECTOR})).message.metrics
    assert np.isnan(found["norm"]) and found["ratio"] == float("inf")
