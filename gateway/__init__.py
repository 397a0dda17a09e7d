"""The gateway: commands to store operations and back, and the runtime that alone touches the world."""
