"""Clusters as their users have them: files, commands and faults, on the hosts of a test bed or on this machine.

Mirrors no package: what is tested here is the whole of Shoal, from the command line down. `desk.py` has what the tests
share.
"""
