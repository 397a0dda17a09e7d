"""Every operation of every protocol, and the rights that it needs: with each of them, without one of them, without a name."""
