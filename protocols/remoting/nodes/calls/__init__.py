"""Values that nodes exchange in frames of the remoting protocol: their fields, one after the other."""
