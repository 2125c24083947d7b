"""Scenarios that ship with edge_fed, one TOML file each."""
