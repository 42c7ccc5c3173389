"""Run the command line with `python -m circlematch`."""

import sys

from circlematch.cli import main

if __name__ == "__main__":
    sys.exit(main())
