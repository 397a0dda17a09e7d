"""The controller: what the nodes of a cluster agree on. Pure: time, entropy, network and disk are handed in."""
