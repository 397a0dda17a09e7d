"""The role nameserver, and the registration of a node with a store at name servers."""
