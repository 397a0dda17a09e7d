"""Messages on their way out: receiving, pulling, settling, dead letters, watching."""
