"""Messages and positions: requests of producers and consumers."""
