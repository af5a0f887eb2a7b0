"""The tuner of inference: workers, threads, batches and runtimes, chosen from what was measured. Pure."""
