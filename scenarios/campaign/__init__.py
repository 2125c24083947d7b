"""Randomised fault campaigns: seeded sequences of faults on real programs, each judged by checkers.

draw      a seed's scenario and faults, pure
sequence  runs it and keeps a diary beside the run folder
evidence  reads what the run left
counting, replaying, course, waits, leftovers    the checkers; `checks` is their table
pool      many sequences, each in a process of its own
command   ``python -m scenarios campaign``
"""
