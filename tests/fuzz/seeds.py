"""The corpus that is written by hand: real messages and files, and the ways in which they usually break.

``python -m tests.fuzz seeds`` writes it to `corpus/`, one file per seed, named for what it holds.
"""

import io
import re
from collections.abc import Callable, Iterator

import numpy as np

from protocol import messages as m
from protocol.codec import OURS, PREAMBLE, encode
from protocol.limits import MAGIC, MAJOR
from protocol.session import name
from server.checkpoint import unseal
from tests.fuzz.framing import frame
from tests.fuzz.targets import files
from tests.fuzz.targets.codec import LIMITS
from tests.fuzz.targets.edits import BASES
from tests.protocol.samples import SAMPLES
from tests.protocol.test_header import BOMBS

LARGEST = 1000
LETTERS = re.compile(r"[^a-z0-9]+")
Seeds = Iterator[tuple[str, bytes]]

SETS: dict[str, bytes] = {
    "number": b"algorithm.rounds=20",
    "text": b"algorithm.variant=exact",
    "list": b"onboarding.goals=[6, 7]",
    "text for goals": b"onboarding.goals=6",
    "index": b"agents.0.goals=0-2",
    "index far out": b"agents.99999999999999999999.goals=0-2",
    "index of many digits": b"agents." + b"9" * 5000 + b".goals=0",
    "wrong and unknown": b"algorithm.rounds=many\0no.such.key=1\0algorithm.round=3",
    "inline table": b"environment.args={ size = 4 }\0environment.family=gridworld\0policy.name=softmax",
    "inside a table": b"environment.args.size=5",
    "no value": b"algorithm.rounds=",
    "no key": b"=5",
    "nested brackets": b"seed=" + b"[" * 900,
    "deep": b"seed=" + b"[" * 5000,
    "integer of many digits": b"seed=" + b"1" * 5000,
    "nan": b"algorithm.inner_step_size=nan\0algorithm.discount=inf",
    "date": b"environment.args={ size = 1979-05-27 }",
    "no utf-8": b"name=\xff\xfe",
    "escape": b"\x1b[31mname=\x1b[0m",
    "below a number": b"seed.x=1",
    "huge goals": b"onboarding.goals=0-999999999",
    "goals beyond 64 bits": b"onboarding.goals=0-99999999999999999999",
    "many huge goals": b"onboarding.goals=0-999998,0-999998,0-999998",
    "hidden": b'policy={ name = "mlp", args = { hidden = [8, 8] } }',
    "wide": b"policy.args.hidden=[1000000000]",
    "rounds and a timeline": b'algorithm.rounds=9000000\0timeline=[{ do = "kill", who = "0", at_round = 3 }]',
}
TOML: dict[str, bytes] = {
    "empty": b"",
    "a mark at its front": b"\xef\xbb\xbfname = \"x\"\n",
    "three faults": b"sed = 1\n[algorithm]\nrounds = \"many\"\ninner_batch = 0\n",
    "not toml": b"name = \n",
    "no utf-8": b"name = \"\xff\"\n",
    "escape in a key": b'"\\u001b[31m" = 1\n',
    "control sign in a value": b'[algorithm]\nvariant = "\\u0007"\n',
    "deep list": b"seed = " + b"[" * 500 + b"]" * 500,
    "integer of many digits": b"seed = " + b"7" * 4400,
    "integer beyond 64 bits": b"seed = 99999999999999999999\n",
    "date": b"seed = 1979-05-27\n[environment]\nargs = { when = 07:32:00 }\n",
    "dotted keys": b"algorithm.rounds = 3\nalgorithm.local_steps = 2\nfederation.lease_s = nan\n",
    "goals": b"[[agents]]\ngoals = \"0-2,4\"\n[[agents]]\ngoals = [3]\n"
    b"inner_batch = 20\nlink = { latency_s = 0.1 }\n",
    "goals twice": b"[[agents]]\ngoals = \"0-3\"\n[[agents]]\ngoals = [3, 3, -1]\n",
    "long text": b'description = """\n' + b"x" * 600 + b'\n"""\n',
    "gridworld": b"[environment]\nfamily = \"gridworld\"\nargs = { size = 5 }\n"
    b"[policy]\nname = \"softmax\"\n",
    "huge gridworld": b"[environment]\nfamily = \"gridworld\"\n"
    b"args = { size = 99999 }\n[policy]\nname = \"softmax\"\n",
}  # fmt: skip
TIMELINE: dict[str, bytes] = {
    "join leave": b'[[timeline]]\ndo = "join"\nwho = "2"\nat_round = 4\n[[timeline]]\n'
    b'do = "leave"\nwho = 3\nat_round = 6\n',
    "kill and expect": b'[[timeline]]\ndo = "restart"\nwho = "0"\nat_round = 6\n'
    b'args = { point = "trained" }\n'
    b'[[expect]]\nmetric = "rounds"\ncomparison = "=="\nvalue = 12\n',
    "server": b'[[timeline]]\ndo = "pause"\nwho = "server"\nat_s = 1.5\nargs = { for_s = 2 }\n',
    "unknown action": b'[[timeline]]\ndo = "explode"\nwho = "0-99"\n[[expect]]\n'
    b'metric = "joy"\ncomparison = ">"\nvalue = 1\n',
    "odd digits": '[[timeline]]\ndo = "join"\nwho = "\u00b2"\nat_round = 4\n'.encode(),
    "onboard nobody": b'[[timeline]]\ndo = "onboard"\nwho = "77"\nat_round = 1\n[onboarding]\ngoals = []\n',
    "link": b'[[timeline]]\ndo = "link"\nwho = "1"\nat_round = 2\nargs = { latency_s = 0.1, loss = 2 }\n',
}  # fmt: skip
STUDIES: dict[str, bytes] = {
    "alpha": b'name = "alpha"\nscenario = "gridworld-exact"\nseeds = "0-3"\n[[arms]]\nname = "exact"\n'
    b'grid = { "algorithm.inner_step_size" = [1, 2.5] }\n',
    "faults": b'name = "../x"\nseeds = "5-1"\noutcomes = ["joy"]\nset = ["seed=3"]\n'
    b'[[arms]]\nname = "a/b"\nset = ["x"]\n',
    "empty grid": b'[[arms]]\nname = "a"\ngrid = { "algorithm.rounds" = [] }\n',
    "wide grid": b'[[arms]]\nname = "a"\n'
    b'grid = { x = [1,2,3,4,5,6,7,8,9,10,11], y = [1,2,3,4,5,6,7,8,9,10,11], z = [1,2,3,4,5,6,7,8,9] }\n',
    "tuning": b'seeds = [7]\n[[arms]]\nname = "a"\n[tuning]\ngoals = "9-10"\nstep_sizes = [0.1, 1]\n',
    "same arms": b'[[arms]]\nname = "a"\n[[arms]]\nname = "a"\n',
    "no arms": b"arms = []\n",
    "true grid": b'[[arms]]\nname = "a"\n'
    b'grid = { "onboarding.random" = [true, false], "algorithm.rounds" = [2] }\n',
}  # fmt: skip


def seeds() -> dict[str, dict[str, bytes]]:
    """Target -> name -> content."""
    settings = [*TOML.items()]
    return {
        "header": dict(_headers()),
        "codec": dict(_frames()),
        "edits": {f"base {number:02}": bytes([number]) for number in range(len(BASES))}
        | {f"edit {where:02x}": bytes([1, where, 6, 1, where ^ 0x80, 3, 2]) for where in range(0, 256, 17)},
        "session": dict(_walks()),
        "config": dict(settings),
        "scenario": {**dict(settings), **TIMELINE},
        "sets": SETS,
        "study": {**TOML, **STUDIES},
        "state": dict(_states()),
        "checkpoint": dict(_checkpoints()),
    }


def file_name(title: str) -> str:
    """A seed's title as the name of its file."""
    return LETTERS.sub("-", title.lower()).strip("-")


def _headers() -> Seeds:
    for kind, message in SAMPLES.items():
        yield (
            name(kind),
            bytes(encode(m.Header(session=b"s" * 16, seq=3), message, _carried(kind), LIMITS)[1]),
        )
    yield from ((title, bomb[:LARGEST]) for title, bomb in BOMBS.items())


def _frames() -> Seeds:
    for kind, message in SAMPLES.items():
        yield name(kind), frame(encode(m.Header(session=b"s" * 16, seq=3), message, _carried(kind), LIMITS))
    update = encode(m.Header(), SAMPLES[m.Update], _carried(m.Update), LIMITS)
    both = {"params": np.ones(9), "control": -np.ones(9)}
    yield "theta with control", frame(encode(m.Header(), SAMPLES[m.Theta], both, LIMITS))
    yield "a chunk twice", frame([*update, update[-1]])
    yield "no chunk", frame(update[:2])
    yield "empty frames", frame([b""] * 5)
    yield "another major", frame([PREAMBLE.pack(MAGIC, MAJOR + 1, 0, 0), update[1]])
    yield "garbage", frame([b"GET / HTTP/1.1\r\n", b"Host: x"])
    yield "flags", frame([PREAMBLE.pack(MAGIC, MAJOR, 0, 1), update[1]])
    yield "bomb", frame([OURS, b"\xdf\xff\xff\xff\xff"])


def _walks() -> Seeds:
    kinds = list(SAMPLES)
    train = [m.Register, m.Welcome, m.Ready, m.Theta, m.Update, m.Ack, m.Evaluate, m.Report, m.Ping, m.Pong]
    onboard = [m.Register, m.Welcome, m.Ready, m.Onboard, m.Init, m.Report, m.Ack, m.Bye]
    for title, path in {"training": train, "onboarding": onboard}.items():
        steps = [
            (0, (kind in m.FROM_AGENT) | 2 * (title == "onboarding"), kinds.index(kind)) for kind in path
        ]
        walk = b"".join(map(bytes, steps))
        yield title, walk
        yield f"{title} and all of it again", walk + b"".join(bytes([4, 0, at]) for at in range(len(path)))
        yield f"{title} and a new server", walk + bytes([7, 0, 0]) + walk
        yield (
            f"{title} with losses",
            b"".join(bytes([3 * (at % 2), *step[1:]]) for at, step in enumerate(steps)),
        )
    yield "forgeries", b"".join(bytes([6, who, who % len(kinds)]) for who in range(0, 256, 7))


def _states() -> Seeds:
    owner = np.array([*b"fuzzed-run-fuzz!", 0, 4, 3], dtype=float)  # of `targets.files`
    whole = _npz(A=np.eye(2), b=np.ones(2), of_run_agent_round=owner)
    yield "state", whole
    yield "no arrays", _npz()
    yield "cut", whole[: len(whole) // 2]
    yield "compressed", _npz(np.savez_compressed, A=np.zeros(500))
    yield "wrong dtype", _npz(A=np.ones(2, dtype="<f4"))
    yield "structured", _npz(A=np.zeros(1, dtype="<f8,<i4"))
    yield "array without archive", _npy(np.ones(3))
    yield "empty", b""
    yield "no archive", b"not an archive"
    yield "huge shape", whole.replace(b"(2, 2)", b"(9e9,)").replace(b"(9e9,)", b"(2**40")
    yield "shape beyond the file", whole.replace(b"(2, 2), }  ", b"(99999, 22)}")
    yield "encrypted", _flagged(whole, 1)
    yield "unknown compression", whole.replace(b"\x00\x00\x00\x00\x21\x00", b"\x00\x00\x63\x00\x21\x00")
    yield "pickled objects", whole.replace(b"'<f8'", b"'|O' ")


def _checkpoints() -> Seeds:
    whole = files.run_files()
    for path in files.REPLACED:
        if path in whole and len(whole[path]) < LARGEST:
            yield f"whole {path}", files.replaced_by(path, whole[path])
            yield f"cut {path}", files.replaced_by(path, whole[path][:-7])
        for title, content in {"empty": b"", "null": b"null\n", "list": b"[]\n", "map": b"{}\n"}.items():
            yield f"{title} {path}", files.replaced_by(path, content)
    sidecar = unseal(
        whole["checkpoints/round-000002.json"]
    )  # as earlier versions wrote it: no hash of its own
    yield "sidecar without its hash", files.replaced_by(files.REPLACED[0], sidecar)
    yield (
        "sidecar with another book",
        files.replaced_by(files.REPLACED[0], sidecar.replace(b'"last":{', b'"last":[{')),
    )
    yield (
        "sidecar of another round",
        files.replaced_by(files.REPLACED[0], whole["checkpoints/round-000001.json"]),
    )
    yield (
        "sidecar with control",
        files.replaced_by(
            files.REPLACED[0], sidecar.replace(b'"control_sha256":""', b'"control_sha256":"a"')
        ),
    )
    yield (
        "array of another round",
        files.replaced_by(files.REPLACED[1], whole["checkpoints/round-000001.npz"]),
    )
    for path in ("metrics.jsonl", "events.jsonl"):
        last = whole[path].splitlines(keepends=True)[-1]
        yield f"last line {path}", files.replaced_by(path, last)
        yield f"wrong types {path}", files.replaced_by(path, last.replace(b"[0,1,2]", b"7"))
        yield f"round as text {path}", files.replaced_by(path, last.replace(b'"round":2', b'"round":[2]'))
    yield "deep json", files.replaced_by("summary.json", b"[" * 900)
    yield (
        "evaluation round as text",
        files.replaced_by("evaluations.jsonl", b'{"kind":"evaluation","round":"x"}\n'),
    )


def _carried(kind: type[m.Message]) -> dict[str, np.ndarray]:
    return dict.fromkeys(m.TENSORS.get(kind, ()), np.ones(9))


def _npz(save: Callable[..., None] = np.savez, /, **arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _flagged(archive: bytes, flag: int) -> bytes:
    """The archive with a general purpose flag set in every header."""
    changed = bytearray(archive)
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = changed.find(magic)
        while at >= 0:
            changed[at + offset] |= flag
            at = changed.find(magic, at + 4)
    return bytes(changed)
