"""Tables of experiments as files: .xlsx, .csv, .tsv, .jsonl and .parquet, read row by row. Knows no kind."""
