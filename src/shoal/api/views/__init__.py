"""What there is to know of runs that are there: lists, details, rows, averages. Reads only; prints nothing."""
