"""The server program: python -m server."""
