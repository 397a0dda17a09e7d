"""The server process: command line, configuration, composition of the parts, listeners, reload of settings."""
