"""Records of archives and tables, read by ranges of files wherever they are. Knows nothing of jobs."""
