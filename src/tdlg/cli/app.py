"""The application: errors, warnings and exit codes of all commands."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tdlg import __version__
from tdlg.cli.options import example
from tdlg.cli.process import heed_interrupts, open_streams, was_interrupted, was_terminated
from tdlg.cli.terminal import note, red, warn
from tdlg.cli.wording import in_shell_words
from tdlg.exceptions import TdlgWarning

__all__ = ["app", "run_app"]

WRONG_USAGE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 130, 141, 143  # exit codes that shells use, three for signals
USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, which some versions of typer contain and others import


class Commands(TyperGroup):
    """Commands that end with a one-line message and an exit code if the user can correct the error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        with _plain_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _plain_errors(ctx), _plain_warnings(ctx):
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, so that a closed pipe is still noticed
            return result


@contextmanager
def _plain_errors(context: Any) -> Iterator[None]:
    """Show errors that a user can cause as one line."""
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted() from None
    except BrokenPipeError:
        _forget_stdout()
        raise typer.Exit(BROKEN_PIPE) from None
    except USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        red(f"error: {_of_usage(error, context)}")
        raise typer.Exit(WRONG_USAGE) from None
    except Exception as error:
        if was_interrupted():  # inside compiled code, Ctrl-C surfaces as another error
            raise _interrupted() from None
        if not _is_plain(error) or os.environ.get("TDLG_TRACEBACK"):
            raise
        red(f"error: {_of_system(error) or in_shell_words(error, context) or type(error).__name__}")
        raise typer.Exit(1) from None


def _interrupted() -> typer.Exit:
    note("terminated" if was_terminated() else "interrupted")
    return typer.Exit(TERMINATED if was_terminated() else INTERRUPTED)


def _of_usage(error: Any, context: Any) -> str:
    """What is wrong with an option or argument; where the message is not ours, with the way to the help."""
    text = error.format_message()
    if type(error) is typer.BadParameter:
        if error.param is None:
            return f"{error.param_hint}: {error.message}"
        text = f"{max(error.param.opts, key=len)}: {error.message.removeprefix('Value error, ')}"
    command = " ".join(["tdlg", *filter(None, [context.invoked_subcommand])])
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} Use `{command} --help` for help."


def _is_plain(error: Exception) -> bool:
    """Whether the message alone is enough for the user; any other error is a bug of this package."""
    return isinstance(error, ValueError | OSError | ImportError | MemoryError) or _is_of_polars(error)


def _is_of_polars(error: Exception) -> bool:
    return any(kind.__module__.startswith("polars") for kind in type(error).__mro__)


def _of_system(error: Exception) -> str:
    """The message of an error of the operating system; empty for any other error."""
    if isinstance(error, MemoryError):
        return f"There is not enough memory. {error}".strip()
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return ""


def _forget_stdout() -> None:
    """Discard the remaining output, so that Python reports no error at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is not a file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115


@contextmanager
def _plain_warnings(context: Any) -> Iterator[None]:
    """Show the warnings that are meant for users as messages, and hide all others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, category, *_, **__: (
            warn if issubclass(category, TdlgWarning) else note
        )(in_shell_words(message, context) if isinstance(message, Exception) else message)
        yield


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is shown in a third of the time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("tdlg classify payments.csv --label fraud -o filled.csv"),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tdlg {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Score, explain and predict timed interactions (payments, ratings, messages).

    All that is needed is a table of interactions (csv, JSON lines or parquet) with a source, a destination and a time.
    """


def run_app() -> None:
    """Run the command line as a separate process."""
    heed_interrupts()
    open_streams()
    try:
        app(prog_name="tdlg")
    except OSError as error:  # while printing help or usage, before a command runs
        red(f"error: {_of_system(error) or error}")
        raise SystemExit(1) from None
