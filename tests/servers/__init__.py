"""Real servers for tests, started on free loopback ports and ended with the session: S3, HDFS, and a proxy that fails.

Their fixtures are imported in `tests/conftest.py`, so that every test can ask for them by name.
"""
