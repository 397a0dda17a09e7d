"""Users and policies of an Apache RocketMQ cluster, as this gateway applies them to clients of all protocols."""
