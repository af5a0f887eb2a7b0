"""The kind `process`: records of crawls and tables, mapped by a job and reduced to one result."""
