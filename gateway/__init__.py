"""The gateway: use cases that turn commands into store operations, and the runtime, which alone does I/O."""
