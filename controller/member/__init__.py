"""One controller: raft driven over storage, network and time, the store groups that it replicates, and their elections."""
