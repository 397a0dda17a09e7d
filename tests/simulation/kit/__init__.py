"""The clock, the disk, the network and the entropy of all simulations, and how known bugs are put back in them."""
