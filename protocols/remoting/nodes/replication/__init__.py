"""What replicas say to each other, on the port `replication` of each: codes 30025 to 30027, and 30030."""
