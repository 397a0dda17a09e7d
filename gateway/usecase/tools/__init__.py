"""Commands of administrators and their tools: queries, relayed questions, policy, the name server."""
