"""Decisions, as pure functions: values in, values out. No I/O, no clock, no engine."""
