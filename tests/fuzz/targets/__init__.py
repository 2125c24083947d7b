"""The table of targets: what is fuzzed, and by which function.

A target is a pure function of bytes. It raises if a property is broken: an exception that the specification
does not name is a broken property, too.
"""

from collections.abc import Callable

from tests.fuzz.targets import codec, edits, files, header, session, settings

Target = Callable[[bytes], None]

TARGETS: dict[str, Target] = {
    "header": header.target,
    "codec": codec.target,
    "edits": edits.target,
    "session": session.target,
    "config": settings.config,
    "scenario": settings.scenario,
    "sets": settings.sets,
    "study": settings.study,
    "state": files.state,
    "checkpoint": files.checkpoint,
}
