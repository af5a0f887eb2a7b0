"""The shapes of execution. Retry, timeout, resume and progress are written here, once, for every kind."""
