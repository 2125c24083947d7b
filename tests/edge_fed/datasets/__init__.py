"""Tests of edge_fed.datasets."""
