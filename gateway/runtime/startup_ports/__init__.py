"""The bound ports of a node that does not serve clients yet."""
