"""Hostile frames at a real socket: each is answered as `protocol/README.md` says, and the round goes on."""

import asyncio
import os
import pickle
import random
import tracemalloc
from pathlib import Path

import msgpack
import numpy as np
import pytest

from protocol import codec
from protocol import messages as m
from protocol.codec import OURS, PREAMBLE
from protocol.limits import MAGIC, MAJOR, MALFORMED_LIMIT, MAX_HEADER_BYTES, MINOR
from tests.fuzz.__main__ import CORPUS
from tests.fuzz.framing import unframe
from tests.protocol.samples import SAMPLES
from tests.protocol.test_fuzz import Exploit
from tests.protocol.test_header import BOMBS
from tests.server.siege import PROBE, Siege, Stranger, siege

PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
PING = bytes(codec.encode(m.Header(), m.Ping())[1])
REGISTER = m.Register(agent=5, incarnation=b"i" * 16)
UPDATE = m.Update(round=1, theta_crc32=0, crc32=0, trajectories=1, trajectories_spent=1)


def update_with(**entry: object) -> list[bytes]:
    """An UPDATE whose tensor entry says something else than its frames hold."""
    frames = [bytes(frame) for frame in codec.encode(m.Header(), UPDATE, {"delta": np.ones(100)})]
    header = msgpack.unpackb(frames[1])
    header["tensors"][0] |= entry
    return [frames[0], msgpack.packb(header), *frames[2:]]


def register_and(entry: bytes) -> list[bytes]:
    """A REGISTER that is right but for one more entry in its header."""
    preamble, header = codec.encode(m.Header(), REGISTER)
    return [bytes(preamble), bytes([header[0] + 1]) + bytes(header[1:]) + entry]


def kib() -> int:
    """This process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB


HOSTILE: dict[str, list[bytes]] = {
    **{f"header: {name}": [OURS, bomb] for name, bomb in BOMBS.items()},
    **{f"{count} empty frames": [b""] * count for count in range(1, 6)},
    "a preamble alone": [OURS],
    "garbage preamble": [b"GET / HTTP/1.1\r\n", PING],
    "preamble cut": [OURS[:-1], PING],
    "preamble too long": [OURS + b"\0", PING],
    "flags": [PREAMBLE.pack(MAGIC, MAJOR, MINOR, 1), PING],
    "no preamble": [PING],
    "a chunk that nothing announces": [OURS, PING, b"12345678"],
    "count beyond its bytes": update_with(count=10**12),
    "count below its bytes": update_with(count=1),
    "negative count": update_with(count=-1),
    "count of 64 bits": update_with(count=2**64 - 1),
    "chunks beyond the frames": update_with(chunks=2**62),
    "no chunk": update_with(chunks=0),
    "dtype of objects": update_with(dtype="|O"),
    "dtype with fields": update_with(dtype="f8,O"),
    "dtype big-endian": update_with(dtype=">f8"),
    "dtype float32": update_with(dtype="<f4", count=200),
    "right but for a key twice": register_and(b"\xa3seq\x00"),
    "right but for an integer key": register_and(b"\x01\x02"),
    "right but for a list as key": register_and(b"\x91\x01\x02"),
    "right but for bytes as key": register_and(b"\xc4\x01x\x02"),
    "right but for an ext type": register_and(b"\xa1x\xd4\x05x"),
    "right but for an integer of 64 bits": register_and(b"\xa1x\xcf" + b"\xff" * 8),
    "a shape": [*update_with(count=[10, 10])],
    "another name": update_with(name="params"),
    "type unknown": [OURS, msgpack.packb({"message": {"t": "GOSSIP"}, "tensors": []})],
    "type missing": [OURS, msgpack.packb({"message": {}, "tensors": []})],
    "seq negative": [OURS, msgpack.packb({"seq": -1, "message": {"t": "PING"}, "tensors": []})],
    "session too long": [
        OURS,
        msgpack.packb({"session": b"x" * 17, "message": {"t": "PING"}, "tensors": []}),
    ],
    "largest header": [OURS, b"\xdd\x00\x00\xff\xfb" + b"\x80" * (MAX_HEADER_BYTES - 5)],
    **{f"pickle {protocol}": [OURS, pickle.dumps(Exploit(), protocol)] for protocol in range(6)},
    "pickle as chunk": [*update_with(dtype="|O")[:2], pickle.dumps(Exploit()).ljust(800, b"\0")],
}


@pytest.mark.parametrize("scheme", ["tcp", "ipc"])
async def test_a_stranger_s_rubbish_is_dropped_without_an_answer(tmp_path: Path, scheme: str) -> None:
    """[wire 30, 31, 33, 34, 35, 47] [complaints 49, 70] No session, no answer; nothing runs."""
    import builtins

    address = {"tcp": "tcp://127.0.0.1:0", "ipc": f"ipc://{tmp_path}/s"}[scheme]
    async with siege(tmp_path / "run", address) as attack:
        stranger = attack.connect()
        for title, frames in HOSTILE.items():
            await stranger.send(frames)
            answer = await stranger.probe()
            assert isinstance(answer, m.Error) and answer.code == "unknown_session", title
        assert attack.members <= 2
        await stranger.leave()
    assert attack.server.summary["malformed"] == len(HOSTILE)
    assert not hasattr(builtins, "exploited")


async def test_an_agent_s_rubbish_is_answered_by_malformed(tmp_path: Path) -> None:
    """[wire 30, 31, 35] Each costs its sender an ERROR; a legal message in between keeps the session."""
    async with siege(tmp_path / "run") as attack:
        agent = attack.connect()
        await agent.join(attack.admission)
        for title, frames in HOSTILE.items():
            await agent.send(frames)
            error = await agent.hear()
            assert isinstance(error, m.Error), title
            assert error.code == ("unknown_type" if title == "type unknown" else "malformed"), title
            await agent.say(m.Heartbeat(phase="idle"))
            assert isinstance(await agent.hear(), m.Heartbeat)
        for _ in range(MALFORMED_LIMIT):
            await agent.send([b"rubbish"])
            assert isinstance(await agent.hear(), m.Error)
        await agent.send(codec.encode(agent.session.send(m.Heartbeat(phase="")), m.Heartbeat(phase="")))
        last = await agent.hear()
        assert isinstance(last, m.Error) and last.code == "unknown_session"
        await agent.leave()


async def test_an_update_of_a_stranger_is_not_copied(tmp_path: Path) -> None:
    """[wire 30] 32 MiB without a session: refused as such, and no copy is made of them.

    The same from an agent, which may send 288 bytes: illegal for who does not train, and no copy either.
    """
    delta = np.ones(4 * 1024 * 1024)
    async with siege(tmp_path / "run") as attack:
        stranger, guest = attack.connect(), attack.connect()
        await guest.join(attack.admission)
        mine = m.Header(session=guest.sid, seq=2**30)
        for attacker, header, code in (
            (stranger, m.Header(session=b"s" * 16, seq=1), "unknown_session"),
            (guest, mine, "illegal_order"),
        ):
            frames = codec.encode(header, UPDATE, {"delta": delta})
            tracemalloc.start()
            try:
                await attacker.send(frames)
                answer = await attacker.hear()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert isinstance(answer, m.Error) and answer.code == code
            assert peak < delta.nbytes / 8
        await stranger.leave()
        await guest.leave()


async def test_another_major_is_told_both_versions(tmp_path: Path) -> None:
    """[wire 47] REJECT(version) in our major, whatever is behind the preamble; a newer minor is let in."""
    async with siege(tmp_path / "run") as attack:
        stranger = attack.connect()
        for major in (0, MAJOR + 1, 255):
            await stranger.send([PREAMBLE.pack(MAGIC, major, 7, 9), b"\xc1 no msgpack"])
            answer = await stranger.hear()
            assert isinstance(answer, m.Reject)
            assert (answer.reason, answer.received) == ("version", f"protocol {major}.7")
        await stranger.send([PREAMBLE.pack(MAGIC, MAJOR, 250, 0), codec.encode(m.Header(), REGISTER)[1]])
        assert isinstance(await stranger.hear(), m.Welcome)
        await stranger.leave()


async def test_messages_in_the_wrong_order_change_nothing(tmp_path: Path) -> None:
    """[wire 24] Without a session: unknown_session. Within one: illegal_order, by the table of the states."""
    outside = (m.Reject, m.Error, m.Superseded, m.Shutdown, m.Register)
    async with siege(tmp_path / "run") as attack:
        stranger = attack.connect()
        for kind, message in SAMPLES.items():
            if kind in outside:
                continue
            tensors = dict.fromkeys(m.TENSORS.get(kind, ()), np.ones(100))
            await stranger.send(codec.encode(m.Header(session=b"s" * 16, seq=1), message, tensors))
            answer = await stranger.hear()
            assert isinstance(answer, m.Error) and answer.code == "unknown_session", kind
        await stranger.say(REGISTER)
        assert isinstance(await stranger.hear(), m.Welcome)
        legal = (m.Register, m.Ready, m.Heartbeat, m.Pong, m.Error, m.Bye)
        for kind, message in SAMPLES.items():
            if kind in legal:
                continue
            header = m.Header(session=stranger.session.sid, seq=1000)
            tensors = dict.fromkeys(m.TENSORS.get(kind, ()), np.ones(100))
            await stranger.send(codec.encode(header, message, tensors))
            answer = await stranger.hear()
            assert isinstance(answer, m.Error) and answer.code == "illegal_order", kind
        await stranger.say(m.Heartbeat(phase="idle"))
        assert isinstance(await stranger.hear(), m.Heartbeat), "the numbers of refused messages do not count"
        await stranger.leave()


async def test_replayed_messages_are_dropped(tmp_path: Path) -> None:
    """[wire 22, 48] The same frames a thousand times, over two connections: read once, answered once."""
    async with siege(tmp_path / "run") as attack:
        agent, other = attack.connect(), attack.connect()
        await agent.join(attack.admission)
        frames = codec.encode(agent.session.send(m.Heartbeat(phase="idle")), m.Heartbeat(phase="idle"))
        await agent.send(frames)
        assert isinstance(await agent.hear(), m.Heartbeat)
        for number in range(1000):
            await (agent, other)[number % 2].send(frames)
        for connection in (agent, other):
            answer = await connection.probe()
            assert isinstance(answer, m.Error) and answer.code == "unknown_session"
        (member,) = attack.server._machine.members.onboarders()
        assert not member.left, "a replay does not move the session to another connection"
        for connection in (agent, other):
            await connection.leave()


async def test_a_flood_of_register_over_one_connection(tmp_path: Path) -> None:
    """[wire 50] 1,000 REGISTERs, each of another incarnation: one session at a time, each one answered."""
    async with siege(tmp_path / "run") as attack:
        before, stranger = kib(), attack.connect()
        for number in range(1000):
            message = m.Register(agent=number % 12, incarnation=number.to_bytes(16, "big"), role="onboard")
            await stranger.send(codec.encode(m.Header(), message))
            answer = await stranger.hear()
            assert isinstance(answer, m.Welcome), answer
        assert attack.members <= 3
        assert kib() - before < 100_000
        await stranger.leave()


async def test_a_flood_of_register_over_many_connections(tmp_path: Path) -> None:
    """[wire 50] 200 connections that register and never become READY: the run is that of two agents."""

    async def knock(attack: Siege, number: int) -> Stranger:
        stranger = attack.connect()
        await stranger.say(
            m.Register(agent=number % 12, incarnation=number.to_bytes(16, "big"), role="onboard")
        )
        assert isinstance(await stranger.hear(), m.Welcome)
        return stranger

    async with siege(tmp_path / "run") as attack:
        strangers = await asyncio.gather(*(knock(attack, number) for number in range(200)))
        assert attack.members <= 202
        for stranger in strangers:
            await stranger.leave()
        while attack.members > 2:
            await asyncio.sleep(0)


async def test_ten_thousand_fuzzed_frames(tmp_path: Path) -> None:
    """[wire 30] [complaints 49] The codec's corpus, damaged, at a real socket: memory flat, round whole."""
    corpus = [unframe(path.read_bytes()) for path in sorted((CORPUS / "codec").iterdir())]
    draw = np.random.default_rng(0)
    async with siege(tmp_path / "run") as attack:
        stranger = attack.connect()
        await stranger.probe()
        before = kib()
        for number in range(10_000):
            frames = [bytearray(frame) for frame in corpus[number % len(corpus)]]
            for _ in range(number % 4):
                frame = frames[draw.integers(len(frames))]
                if frame:
                    frame[draw.integers(len(frame))] = draw.integers(256)
            if frames and number % 7:
                frames[0] = bytearray(OURS)
            await stranger.send([bytes(frame) for frame in frames] or [b""])
            if number % 500 == 0:  # read what was answered, so that the pipe back does not fill up
                while (answer := await stranger.probe()) and not _is_unknown(answer):
                    pass
        assert attack.members <= 3
        assert kib() - before < 50_000
        await stranger.leave()


def _is_unknown(answer: m.Message) -> bool:
    return isinstance(answer, m.Error) and answer.code == "unknown_session"


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 64,
        b"\xff" * 64,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff" + b"\0" * 7 + b"\x01\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32,
        b"\x01\x00",
        random.Random(0).randbytes(4096),
    ],
    ids=["http", "zeros", "ones", "tls", "greeting and silence", "zmtp 1.0", "random"],
)
async def test_what_is_no_zmtp_at_all(tmp_path: Path, junk: bytes) -> None:
    """[wire 44, 47] 20 raw connections of another protocol, left open: libzmq turns them away."""
    async with siege(tmp_path / "run") as attack:
        host, port = attack.server.endpoint.removeprefix("tcp://").split(":")
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(junk)
            await writer.drain()
            writers.append(writer)
        stranger = attack.connect()
        assert _is_unknown(await stranger.probe())
        for writer in writers:
            writer.close()
        await stranger.leave()


async def test_multiparts_that_never_end(tmp_path: Path) -> None:
    """[wire 42] Raw ZMTP: 4 MB in frames with MORE set, then silence, then the end of the connection.

    libzmq keeps what came until then (`protocol/README.md`, Limits): bounded here by what is sent. That a
    stranger cannot send it at all needs keys, see `tests/integration/test_security.py`.
    """
    greeting = b"\xff" + b"\0" * 7 + b"\x01\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" * 32
    ready = b"\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
    frame = b"\x03" + (64_000).to_bytes(8, "big") + b"x" * 64_000
    async with siege(tmp_path / "run") as attack:
        host, port = attack.server.endpoint.removeprefix("tcp://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(greeting)
        assert (await reader.readexactly(64))[0] == 0xFF
        writer.write(ready)
        for _ in range(64):
            writer.write(frame)
            await writer.drain()
        stranger = attack.connect()
        assert _is_unknown(await stranger.probe()), "others are served meanwhile"
        writer.close()
        await writer.wait_closed()
        assert _is_unknown(await stranger.probe())
        await stranger.leave()


async def test_frames_beyond_the_limit_cost_the_connection(tmp_path: Path) -> None:
    """[wire 41] A frame larger than any chunk ends its connection unseen; the next message opens another."""
    async with siege(tmp_path / "run") as attack:
        stranger = attack.connect()
        await stranger.probe()
        await stranger.send([b"x" * (attack.server._limits.max_frame_bytes + 1)])
        while True:  # what is sent before the end of the connection is noticed is lost with it
            await stranger.send(PROBE)
            try:
                async with asyncio.timeout(0.5):
                    assert _is_unknown(await stranger.hear())
                    break
            except TimeoutError:
                continue
        await stranger.leave()
