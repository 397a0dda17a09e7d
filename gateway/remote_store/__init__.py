"""A store on another node, behind the ports of the store."""
