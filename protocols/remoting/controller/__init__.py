"""Requests of Apache's brokers and mqadmin to a controller, and of a controller to brokers."""
