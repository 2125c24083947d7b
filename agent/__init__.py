"""The agent program: python -m agent --goal K."""
