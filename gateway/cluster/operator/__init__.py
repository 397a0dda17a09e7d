"""The commands `headgate cluster`: what an operator asks the controllers of store groups."""
