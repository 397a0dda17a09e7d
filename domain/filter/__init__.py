"""Which messages a consumer wants: tags, SQL92, paths."""
