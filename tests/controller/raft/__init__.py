"""Tests of raft: scripts, simulations under seeds, and bugs that are put back."""
