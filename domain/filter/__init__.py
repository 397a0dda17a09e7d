"""Which messages a consumer wants: tags, paths."""
