"""Scripted experiments: python -m scenarios run NAME."""
