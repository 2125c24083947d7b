"""What may stand nowhere in the programs: ways to turn bytes into running code, and one bad socket option."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "edge_fed", "protocol", "scenarios", "server")
MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "msgpack_numpy"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {"send_pyobj", "recv_pyobj", "send_serialized", "recv_serialized", "CONFLATE"}


def forbidden(source: str) -> Iterator[str]:
    """What of it stands in a text of Python, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            yield from (f"{node.lineno}: import {name}" for name in names & MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield f"{node.lineno}: from {node.module}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
            yield f"{node.lineno}: {node.func.id}()"
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield f"{node.lineno}: .{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and not _is_false(node.value):
            yield f"{node.value.lineno}: allow_pickle"


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


@pytest.mark.parametrize("package", PACKAGES)
def test_no_bytes_become_code(package: str) -> None:
    """[wire 33, 45] [complaints 70] No pickle and its kin, no eval and exec, no CONFLATE, in any file."""
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = {str(path.relative_to(ROOT)): list(forbidden(path.read_text())) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal.x",
        "from cloudpickle import loads",
        "def f():\n    import shelve",
        "eval('1')",
        "exec(open('x').read())",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "socket.recv_pyobj()",
        "socket.setsockopt(zmq.CONFLATE, 1)",
    ],
)
def test_the_check_can_fail(source: str) -> None:
    """Each of these would be found."""
    assert len(list(forbidden(source))) == 1


def test_the_check_lets_pass_what_only_looks_alike() -> None:
    """Methods of these names, and a pickle that is refused."""
    source = (
        "re.compile('x'); asyncio.create_subprocess_exec('ls'); np.load(p, allow_pickle=False); policy.eval()"
    )
    assert list(forbidden(source)) == []
