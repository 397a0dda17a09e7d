"""Registration of a node with a store at name servers."""
