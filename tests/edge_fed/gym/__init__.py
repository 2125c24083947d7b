"""Tests of Gymnasium environments as a family, and of our families as Gymnasium environments."""
