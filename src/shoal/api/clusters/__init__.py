"""Clusters by their files: up and down, joined by runs, grown, measured, exported; runs that are detached to them."""
