"""Apache RocketMQ's integration tests, unmodified, against three nodes. README.md lists which tests are run."""
