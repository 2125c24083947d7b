"""Tests of edge_fed.theory."""
