"""A kind of work that is not Shoal's: greetings. `kind.py` is its folder in `work/`, `spec.py` its file in `spec/`."""
