"""Tests of the fault suite."""
