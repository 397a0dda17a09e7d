"""`python -m gateway` is `headgate`."""

from gateway.cli import main

main()
