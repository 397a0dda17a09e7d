"""`python -m gateway` runs the command `headgate`."""

from gateway.node.cli import main

main()
