"""What administrators and their tools ask: queries, relayed questions, policy, the name server."""
