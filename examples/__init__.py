"""Short programs, one a protocol, and one that shows them together: `python -m examples.weather`."""
