"""``python -m sidecar`` is the ``sidecar`` command."""

import sys

from sidecar.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
