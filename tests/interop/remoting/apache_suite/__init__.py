"""Apache RocketMQ's own integration tests, unmodified, against three nodes. README.md has what is run and what is not."""
