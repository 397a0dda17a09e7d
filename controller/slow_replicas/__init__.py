"""Grey failure: replicas that answer but are slow. Their detection, and the moves of leaderships away from them."""
