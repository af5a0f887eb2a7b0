"""Sweeps: one program, many trials. Loaded by module (`job`, `trial`), so that a worker imports only what it runs."""
