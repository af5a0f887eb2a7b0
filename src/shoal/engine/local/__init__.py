"""The embedded engine: `engine.LocalEngine`. Loaded by module, so that a worker imports only what it runs."""
