"""Environments: one file per family, one interface, one table of families."""
