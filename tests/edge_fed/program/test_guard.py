"""Callbacks that fail: the program hears of it, whichever way the callback was scheduled."""

import asyncio
import gc

import pytest

from edge_fed.program.guard import GuardedLoop, end_on_failure


def broken() -> None:
    """Every callback of these tests."""
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("how", ["call_soon", "call_at", "post", "thread"])
async def test_an_exception_of_a_guarded_callback_is_passed_on(how: str) -> None:
    """Nothing is left to the loop, which would only log it."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[Exception] = loop.create_future()
    guarded = GuardedLoop(loop, failed.set_result)
    if how == "call_at":
        guarded.call_at(loop.time(), broken)
    elif how == "thread":
        await asyncio.to_thread(guarded.post, broken)
    else:
        getattr(guarded, how)(broken)
    assert isinstance(await asyncio.wait_for(failed, 10), ZeroDivisionError)


def test_a_post_after_the_loop_s_end_is_dropped() -> None:
    """A thread may outlive the loop that wanted its result."""
    loop = asyncio.new_event_loop()
    loop.close()
    GuardedLoop(loop, lambda error: None).post(broken)


@pytest.mark.parametrize("what", ["callback", "lost task"])
async def test_what_nobody_guards_ends_the_program_too(what: str) -> None:
    """[wire 49] Callbacks of libraries, and tasks whose exception nobody asks for."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[Exception] = loop.create_future()
    end_on_failure(loop, failed.set_result)

    async def lost() -> None:
        broken()

    try:
        if what == "callback":
            loop.call_soon(broken)
        else:
            task = asyncio.create_task(lost())
            await asyncio.wait([task])
            del task
            gc.collect()
        assert isinstance(await asyncio.wait_for(failed, 10), ZeroDivisionError)
    finally:
        loop.set_exception_handler(None)
