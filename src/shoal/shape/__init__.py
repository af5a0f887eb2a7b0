"""The shapes of execution. Retry, timeout, resume, progress and placement are written here, once, for every kind."""
