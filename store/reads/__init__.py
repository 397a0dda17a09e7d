"""Reading by queue, position and time."""
