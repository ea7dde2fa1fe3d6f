"""The command `tdlg`: each command reads its arguments, makes a few library calls, and prints the result.

Tables go to stdout and messages to stderr. Heavy imports wait until a command needs them.
"""

import os
import sys

try:
    from tdlg.cli.app import app, run_app
    from tdlg.cli.commands import classify, embed, links, live, models, network, outliers, rank, serve, study
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    raise SystemExit(130) from None  # the same as in `app`, which is not imported yet

__all__ = ["app", "main"]

for module in (classify, outliers, links, rank, embed, models, live, serve, network, study):
    module.register(app)


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads of the boosted trees must not spin on busy cores
    run_app()
