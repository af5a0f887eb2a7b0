"""What is done on a host for a cluster: starting, looking at and ending its Ray node. Asked through `__main__`."""
