"""The controller: the agreed state of the nodes of a cluster. Pure: time, entropy, network and disk come through ports."""
