"""The commands `headgate cluster`: requests of an operator to the controllers of store groups."""
