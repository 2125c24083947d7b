"""Tests of `scenarios.campaign`."""
