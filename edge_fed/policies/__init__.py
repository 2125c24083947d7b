"""Policies: one file per policy, one interface, one table of names."""
