"""The public Python API, for people and for the command line. Knows all kinds; prints nothing by itself.

`runs` starts and resumes, `views` looks at runs, `clusters` has clusters by their files, `whatif` asks what would be.
Loaded by module, late.
"""
