"""Benchmarks: python -m scenarios bench."""
