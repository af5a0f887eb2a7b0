"""The kinds of work, a module or folder each: a spec and a plan become a shape. Kinds do not import each other."""
