"""Batch inference: inputs, a model, an output, and workers that do all of it by themselves."""
