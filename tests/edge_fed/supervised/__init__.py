"""Tests of edge_fed.supervised."""
