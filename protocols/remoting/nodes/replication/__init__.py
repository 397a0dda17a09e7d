"""Requests between replicas, on the port `replication` of each: codes 30025 to 30027, and 30030."""
