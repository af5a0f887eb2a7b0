"""Machines: what this one has, and the nodes that a cluster file names. One module per provider, loaded by name."""
