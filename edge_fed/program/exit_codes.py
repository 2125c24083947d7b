"""One exit code per kind of failure, the same for every program."""

import enum


class ExitCode(enum.IntEnum):
    """What a program's exit says; the README prints this table."""

    OK = 0
    FAILED = 1  # an expectation is unmet, or the run failed
    USAGE = 2  # usage or configuration
    QUORUM = 3  # too few agents, or three skipped rounds in a row
    REFUSED = 4  # the server refused this agent: version, dimension, goal, run
    SERVER_GONE = 5  # no server within --give-up-after
    ADDRESS = 6  # the address is busy, invalid or not allowed
    SUPERSEDED = 7  # another process took the goal over, or the goal is in use
    AUTHENTICATION = 8  # keys
    STOPPED = 9  # the server ended the run early
    INTERRUPTED = 130  # SIGINT
    TERMINATED = 143  # SIGTERM


class ProgramError(Exception):
    """A failure that a person can mend: one line of cause, one of what to do next, one exit code."""

    def __init__(self, code: ExitCode, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(message)
