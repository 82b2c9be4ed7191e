"""The command line, and the page about every figure."""
