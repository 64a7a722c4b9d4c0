"""`python -m bedplate`: the command line."""

from bedplate.cli.main import main

if __name__ == "__main__":
    main()
