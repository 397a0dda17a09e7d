"""The state machine above raft: the store groups, their leaders and their SyncStateSets."""
