"""Each hot path against its peer, started by hand: `python -m benchmarks.run --help`."""
