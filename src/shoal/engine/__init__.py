"""Where work runs. One contract (`base`), one folder per engine, each loaded by name, late."""
