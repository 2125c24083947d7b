"""Personalized federated reinforcement learning: the mathematics, and the plumbing programs share."""
