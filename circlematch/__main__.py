"""`python -m circlematch` is the command line."""

import sys

from circlematch.cli import main

if __name__ == "__main__":
    sys.exit(main())
