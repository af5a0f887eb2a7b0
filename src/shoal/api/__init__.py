"""The public Python API, for people and for the command line. Knows all kinds; prints nothing by itself.

`running` starts and resumes, `reading` looks at runs, `whatif` asks what would be, `probing` measures that. Loaded by
module, late.
"""
