"""Messages that nobody sees until their transaction commits."""
