"""`python -m bedplate`: the command line."""

from bedplate.cli.main import main

main()
