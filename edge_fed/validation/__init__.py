"""Finds everything wrong with a run before it starts; see `edge_fed.validation.run`."""

from edge_fed.validation.run import check_run

__all__ = ["check_run"]
