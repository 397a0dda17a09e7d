"""The process: command line, configuration, composition of the parts, listeners."""
