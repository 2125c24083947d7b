"""Files that people write: configurations, scenarios, studies, and overrides on the command line."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError
from edge_fed.program.config_file import load_config
from scenarios.script import check, load_scenario, runtime_faults
from scenarios.study.plan import MOST_ARMS, load_study
from scenarios.timeline import Scenario
from tests.fuzz.folders import folder

UNKNOWN = b"zz_unknown = 1\n"
LONGEST_ERROR = 100_000


def config(data: bytes) -> None:
    """A server's configuration: a valid record, or every fault by name."""
    _file(data, load_config, RunConfig)


def scenario(data: bytes) -> None:
    """A scenario: a valid record that every runtime can judge, or every fault by name."""
    found = _file(data, lambda path, *_: load_scenario(str(path)), Scenario)
    if found is not None:
        assert isinstance(found, Scenario)
        for runtime in ("plain", "inproc", "processes"):
            for fault in runtime_faults(found, runtime):  # type: ignore[arg-type]
                assert str(fault)


def sets(data: bytes) -> None:
    """``--set`` as a shell hands it over: any bytes but NUL, which separates them here."""
    words = [os.fsdecode(word) for word in data.split(b"\0")][:20]
    _loaded(lambda: load_config(None, words), RunConfig)
    _loaded(lambda: load_scenario("few-shot", words), Scenario)


def study(data: bytes) -> None:
    """A study: arms that are checked, or every fault by name."""
    with folder() as here:
        path = here / "study.toml"
        path.write_bytes(data)
        try:
            found = load_study(str(path))
        except ConfigError as error:
            _readable(error)
            return
    assert 0 < len(found.arms) <= MOST_ARMS and found.seeds == tuple(sorted(set(found.seeds)))
    assert len({arm.name for arm in found.arms}) == len(found.arms)
    assert len(found.digest) == 64


def _file(data: bytes, load: Callable[..., Any], kind: type[RunConfig]) -> RunConfig | None:
    with folder() as here:
        path = here / "file.toml"
        path.write_bytes(data)
        found, faults = _loaded(lambda: load(path), kind)
        if faults and faults[0][0] not in ("TOML", str(path)):
            path.write_bytes(UNKNOWN + data)
            more = _loaded(lambda: load(path), kind)[1]
            if more[0][0] != "TOML":  # e.g. the file has a byte order mark
                assert set(more) >= set(faults), "one fault hides no other"
                assert any(path == "zz_unknown" for path, _ in more)
    return found


def _loaded(load: Callable[[], RunConfig], kind: type[RunConfig]) -> tuple[RunConfig | None, Sequence[Any]]:
    try:
        found = load()
    except ConfigError as error:
        _readable(error)
        return None, [(fault.path, fault.message) for fault in error.faults]
    text = msgspec.json.encode(found)
    assert msgspec.json.decode(text, type=kind) == found, "the run folder keeps it"
    if isinstance(found, Scenario):
        assert check(found) == []
    return found, ()


def _readable(error: ConfigError) -> None:
    assert error.faults
    text = str(error)
    assert len(text) <= LONGEST_ERROR, f"an error of {len(text)} characters"
    assert text.isprintable(), f"control signs in {text!r}"
    assert all(fault.path and fault.message for fault in error.faults)
