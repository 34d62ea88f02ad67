"""``python -m bayesdp``: the command line."""

import sys

from bayesdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
