"""Grey failure: replicas that answer, and are slow. Who they are, and when leadership is moved away from one."""
