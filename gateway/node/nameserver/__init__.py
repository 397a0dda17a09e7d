"""The roles nameserver and controller, and the registration of a node with a store at name servers."""
