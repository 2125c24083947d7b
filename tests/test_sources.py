"""What the sources themselves say: which keys are read, who adapts, and how processes start."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from agent.command_line import parser as agent_parser
from edge_fed.config import Settings
from scenarios.timeline import Scenario
from server.command_line import parser as server_parser

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "edge_fed", "protocol", "scenarios", "server")
LINKS = ("protocol/transport/", "scenarios/proxy/", "scenarios/bench/")
BY_NAME = {"availability", "connectivity"}  # read through getattr: edge_fed.profiles, and its tests


class Source(NamedTuple):
    """What one file says.

    Attributes:
        attributes: Names of all that it reads.
        imported: (module, name); the name is empty for a whole module.
        functions: Names of all, methods included.
        keywords: Of all calls.
    """

    attributes: set[str]
    imported: set[tuple[str, str]]
    functions: set[str]
    keywords: set[str]


def read(path: Path) -> Source:
    """One pass over a file."""
    found = Source(set(), set(), set(), set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found.attributes.add(node.attr)
        elif isinstance(node, ast.Import):
            found.imported.update((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.imported.update((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.FunctionDef):
            found.functions.add(node.name)
        elif isinstance(node, ast.keyword):
            found.keywords.add(node.arg or "")
    return found


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    """All files of the packages, by path."""
    return {
        path.relative_to(ROOT).as_posix(): read(path)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def keys(of: type[msgspec.Struct] = Scenario) -> set[str]:
    """All keys of a scenario's file, tables included."""
    found: set[str] = set()
    for kind in _parents(Settings):
        found |= set(kind.__struct_fields__)
    assert set(of.__struct_fields__) <= found
    return found


def _parents(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for below in kind.__subclasses__():
        yield below
        yield from _parents(below)


def test_every_key_of_a_scenario_is_read(sources: dict[str, Source]) -> None:
    """[complaints 37] A key that nothing reads would be accepted and ignored."""
    read = {name for path, source in sources.items() for name in source.attributes if "valid" not in path}
    assert keys() - read == BY_NAME


@pytest.mark.parametrize(
    ("program", "flags"), [("agent", agent_parser()), ("server", server_parser())], ids=["agent", "server"]
)
def test_every_flag_is_read(program: str, flags: argparse.ArgumentParser, sources: dict[str, Source]) -> None:
    """[complaints 37] By the program whose flag it is."""
    names = {action.dest for action in flags._actions} - {"help", "version"}
    files = [
        path for path in sources if re.fullmatch(rf"{program}/(command_line|(own|device)_flags)\.py", path)
    ]
    assert names - set().union(*(sources[path].attributes for path in files)) == set()


def test_there_is_one_adaptation(sources: dict[str, Source]) -> None:
    """[complaints 42] Training, evaluation, onboarding and diagnosis import the same inner step."""
    step = ("edge_fed.meta.adaptation", "adapt_batch")
    users = {path for path, source in sources.items() if step in source.imported}
    meta = {f"edge_fed/meta/{name}.py" for name in ("careful", "exact", "first_order", "sg_mrl")}
    measures = {f"edge_fed/{name}.py" for name in ("diagnostics", "evaluation", "onboarding")}
    assert users == meta | measures
    defined = [path for path, source in sources.items() if "adapt_batch" in source.functions]
    assert defined == ["edge_fed/meta/adaptation.py"]


def test_nothing_forks(sources: dict[str, Source]) -> None:
    """[wire 36] No socket can come into a child: processes are started anew, pools by spawning."""
    for path, source in sources.items():
        names = source.attributes | {name for module, name in source.imported if module == "os"}
        assert not names & {"fork", "forkpty"}, path
        if any(module.partition(".")[0] == "multiprocessing" for module, _ in source.imported):
            assert 'get_context("spawn")' in (ROOT / path).read_text(), path
            assert not path.startswith(("agent/", "server/", "protocol/")), path


def test_nobody_waits_for_a_buffer_to_be_free(sources: dict[str, Source]) -> None:
    """[wire 3] pyzmq's trackers say too early that a frame is sent: nothing asks them, nothing is reused."""
    for path, source in sources.items():
        assert "track" not in source.keywords, path
        assert not source.attributes & {"MessageTracker", "tracker"}, path


def test_nothing_phones_home(sources: dict[str, Source]) -> None:
    """[complaints 61] Nothing that fetches is imported; only where links are made are sockets opened."""
    fetching = {"urllib", "http", "requests", "httpx", "aiohttp", "ftplib", "smtplib", "webbrowser"}
    for path, source in sources.items():
        modules = {module.partition(".")[0] for module, _ in source.imported}
        assert not modules & fetching, path
        if not path.startswith(LINKS):
            assert not modules & {"socket", "ssl", "zmq"}, path
            assert not source.attributes & {"open_connection", "create_connection"}, path
