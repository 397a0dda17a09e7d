"""What Apache's brokers and mqadmin say to a controller, and what a controller says to brokers."""
