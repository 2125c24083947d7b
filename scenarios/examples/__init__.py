"""Environments as a user would write them: copy one beside your scenario and change it."""
