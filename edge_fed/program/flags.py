"""The command lines of the programs tell an error in one line."""

import argparse
from typing import NoReturn

from edge_fed.program.exit_codes import ExitCode


class Flags(argparse.ArgumentParser):
    """A parser whose errors are one line: the usage of twenty flags would bury the cause."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with the usage code."""
        self.exit(int(ExitCode.USAGE), f"error: {message}; see {self.prog} --help\n")
