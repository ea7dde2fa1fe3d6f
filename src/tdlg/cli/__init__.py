"""The command `tdlg`: each command reads its options, calls the library, and prints the result.

Tables go to stdout and messages to stderr. A command's file is imported when the command runs, and what takes long to import
inside the command.
"""

import sys

try:
    from tdlg.cli.group import app, main
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    raise SystemExit(130) from None  # the same as in `group`, which is not imported yet

__all__ = ["app", "main"]
