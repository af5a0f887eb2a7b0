"""Things that go wrong, as their users meet them: the real command, run in a folder of the test's own.

Mirrors no package. `pictures.py` has what the tests of inference share.
"""
