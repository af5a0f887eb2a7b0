"""Shoal runs machine-learning work on whatever machines you have. This module is the whole public Python API."""
