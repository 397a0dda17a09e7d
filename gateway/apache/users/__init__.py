"""Users and policies of an Apache RocketMQ cluster, applied by this gateway to clients of all protocols."""
