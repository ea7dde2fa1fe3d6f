"""The command `tdlg`: each of its commands reads arguments, makes a few calls of the library, and prints.

Where stdout carries a table, words for people go to stderr. Nothing heavy is imported before a command needs it.
"""

import os
import sys

try:
    from tdlg.cli.app import app, run_app
    from tdlg.cli.commands import models, network, study, tables
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    raise SystemExit(130) from None  # as later, but what says it is not there yet

__all__ = ["app", "main"]

for module in (tables, models, network, study):
    module.register(app)


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # boosting's threads must not spin where cores are busy
    run_app()
