"""Benchmarks of the hot paths, beside the peers. They are run by hand: `python -m benchmarks.run --help`."""
