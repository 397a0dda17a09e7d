"""Resources of CoAP: requests to commands, messages to representations."""
