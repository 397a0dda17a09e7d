"""Messages that are not due yet."""
