"""The only package that imports zmq."""
