"""`python -m gateway` is `headgate`."""

from gateway.node.cli import main

main()
