"""A store and three gateways: any gateway serves any message, also after one is killed."""
