"""The wire: versioned msgpack parameter frames over ZeroMQ. The specification is protocol/README.md."""
