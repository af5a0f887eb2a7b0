"""Clusters whose nodes are containers: the documents that describe them, and the providers `kubernetes` and `swarm`.

Documents are values made by pure functions, so that a dry run, an export and an `up` are one thing.
"""
