"""Which addresses a server may take: alone on its machine, or with keys, or by a word."""

import contextlib
from collections.abc import Callable

import pytest

from edge_fed.program.exit_codes import ExitCode, ProgramError
from protocol.limits import Limits
from protocol.transport import Guard, make_pair
from server.binding import bound

OPEN = "tcp://0.0.0.0:0"
GUARD = Guard(make_pair()[1], lambda _key, _address: False)


def bind(address: str, **how: object) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Binding an address so."""
    return lambda: bound(address, Limits(), None, **{"insecure": False, **how})  # type: ignore[arg-type]


async def test_an_address_that_others_reach_needs_keys_or_a_word() -> None:
    """The error says what to type for each way out."""
    with pytest.raises(ProgramError) as refused, bind(OPEN)():
        pass
    assert refused.value.code is ExitCode.ADDRESS
    for words in ("keygen DIR", "--keys DIR", "--insecure", "tcp://127.0.0.1:5555"):
        assert words in refused.value.hint
    for how in ({"guard": GUARD}, {"insecure": True}):
        with bind(OPEN, **how)():
            pass


async def test_this_machine_s_addresses_need_nothing() -> None:
    """With keys they work as well."""
    for how in ({}, {"guard": GUARD}):
        with bind("tcp://127.0.0.1:0", **how)():
            pass


async def test_an_old_libzmq_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to type [wire 44]."""
    monkeypatch.setattr("zmq.zmq_version_info", lambda: (4, 3, 4))
    words = r"libzmq 4\.3\.4 is too old, 4\.3\.5 is needed; type: pip install -U pyzmq"
    with pytest.raises(ProgramError, match=words) as refused, bind("tcp://127.0.0.1:0")():
        pass
    assert refused.value.code is ExitCode.USAGE
