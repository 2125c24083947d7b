"""A fault proxy between one agent and the server: real drops, cuts, stalls and duplicates, over tcp and ipc.

`zmtp` reads the stream, `rules` says what can go wrong, `armed` decides, `lane` is one direction of one
connection; all four are pure. `connection` and `proxy` are the shell of sockets around them.
"""
