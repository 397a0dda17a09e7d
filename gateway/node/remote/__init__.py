"""What a process needs to have commands carried out by the node at another address."""
