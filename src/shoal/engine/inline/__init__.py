"""Items in the driver's own process, one at a time: for debuggers. Nothing is isolated."""
