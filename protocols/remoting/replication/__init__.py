"""What a follower and its leader say to each other: codes 30025 to 30027, on the port `replication` of a replica."""
