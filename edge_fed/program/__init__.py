"""Plumbing of the programs: exit codes, logging, files, threads. The mathematics may not import it."""
