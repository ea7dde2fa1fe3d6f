"""The command `tdlg`: each of its commands reads arguments, makes a few calls of the library, and prints.

Where stdout carries a table, words for people go to stderr. Nothing heavy is imported before a command needs it.
"""

from tdlg.cli.app import app
from tdlg.cli.commands import models, network, study, tables

__all__ = ["app", "main"]

for module in (tables, models, network, study):
    module.register(app)


def main() -> None:
    """Run the command line."""
    app(prog_name="tdlg")
