"""The vocabulary of Headgate: topic, queue, message, consumer group, command, event. Standard library only, no I/O."""
