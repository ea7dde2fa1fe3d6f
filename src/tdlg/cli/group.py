"""The group of all commands: what each is for, its errors in the words of the shell, exit codes and signals."""

from __future__ import annotations

import ast
import errno
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tdlg import __version__
from tdlg.cli import output
from tdlg.cli.options import as_options, example
from tdlg.cli.output import note, one_line, red, warn
from tdlg.exceptions import TdlgError, TdlgWarning

WRONG_USAGE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 130, 141, 143  # exit codes that shells use, three for signals
USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, which some versions of typer contain and others import
COMMANDS = {  # the file of each command, and what it is for
    "classify": ("classify", "Fill in missing labels."),
    "outliers": ("classify", "Find unusual interactions, without labels."),
    "links": ("links", "Find the pairs most likely to interact next."),
    "rank": ("links", "Rank the next partner of a node."),
    "embed": ("links", "Embed interactions or nodes as vectors."),
    "score": ("models", "Score a table with a saved model."),
    "nodes": ("models", "Rank the nodes to look at first."),
    "explain": ("models", "Explain the prediction for one row."),
    "card": ("models", "Say what a model was fitted on, how good it is, and its limits."),
    "stream": ("stream", "Score events as they come, from stdin to stdout."),
    "refit": ("serve", "Learn a new model from what was logged, and use it unless it is worse."),
    "token": ("team", "Add or revoke reviewers, who sign in at the desk with a token each."),
    "snooze": ("team", "Raise no alerts of the nodes in a file for a while."),
    "rules": ("team", "Raise alerts by rules beside the model."),
    "promote": ("team", "Let the challenger of a model answer from now on."),
    "audit": ("team", "List what reviewers did."),
    "drift": ("team", "Show how far the last week is from what the model was fitted on."),
    "serve": ("serve", "Score events over HTTP as they happen, with a page for alerts."),
    "info": ("info", "Show how a table is read."),
    "datasets": ("info", "List the public data sets, or download one."),
    "compare": ("compare", "Compare methods on your own data."),
    "backtest": ("compare", "Go through time: refit regularly, and measure each period."),
    "demo": ("info", "Run the demo, in less than a minute."),
}


class Commands(TyperGroup):
    """Commands whose files are imported when they are used; they end with a one-line message where the user can help."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Import a command."""
        if name not in COMMANDS:
            return None
        if name not in self.commands:
            group: Any = typer.main.get_group(import_module(f"tdlg.cli.{COMMANDS[name][0]}").commands)
            self.commands[name] = group.commands[name]
        return self.commands[name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Their names and what they are for, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        with _plain_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        output.quiet = False
        with _plain_errors(ctx), _plain_warnings(ctx):
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, so that a closed pipe is still noticed
            return result


def command(commands: typer.Typer, *examples: str, **how: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function as a command with these examples; its docstring has the help."""

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        run, text = as_options(function)
        commands.command(help=text, epilog=example(*examples), **how)(run)
        return function

    return decorated


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tdlg {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is shown in a third of the time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=example("tdlg classify payments.csv --label fraud -o filled.csv"),
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Score, explain and predict timed interactions (payments, ratings, messages).

    All that is needed is a table of interactions (csv, JSON lines or parquet) with a source, a destination and a time.
    """


def main() -> None:
    """Run the command line as a separate process."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads of the boosted trees must not spin on busy cores
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # otherwise it is ignored, as with nohup
        signal.signal(signal.SIGINT, output.interrupt)
    _open_streams()
    try:
        app(prog_name="tdlg")
    except OSError as error:  # while printing help or usage, before a command runs
        red(f"error: {_of_system(error) or error}")
        raise SystemExit(1) from None


def _open_streams() -> None:
    """Open closed standard streams in the wrong mode, so that their use is an error, and no file gets their number."""
    for descriptor, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


# ---- errors


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
        if output.was_interrupted():  # inside compiled code, Ctrl-C surfaces as another error
            raise _interrupted() from None
        if not _is_plain(error) or os.environ.get("TDLG_TRACEBACK"):
            raise
        if isinstance(error, OSError) and error.errno == errno.EBADF:
            _forget_stdout()  # what could not be written is not tried again at exit
        red(f"error: {_of_system(error) or in_shell_words(error, context) or type(error).__name__}")
        raise typer.Exit(1) from None


def _interrupted() -> typer.Exit:
    was_terminated = output.was_interrupted() == signal.SIGTERM
    note("terminated" if was_terminated else "interrupted")
    return typer.Exit(TERMINATED if was_terminated else INTERRUPTED)


def _of_usage(error: Any, context: Any) -> str:
    """What is wrong with an option or argument; where the message is not ours, with the way to the help."""
    text = error.format_message()
    if type(error) is typer.BadParameter:
        if error.param is None:
            return f"{error.param_hint}: {error.message}"
        problem = error.message.removeprefix("Value error, ").replace("Input should be", "it must be")
        problem = problem.partition(", unable to parse")[0]
        text = f"{max(error.param.opts, key=len)}: {problem}"
    text += "" if text.endswith((".", "?")) else "."
    unknown = re.match(r"No such command '(.*)'", text)
    for close in get_close_matches(unknown[1], COMMANDS, 1) if unknown else []:
        text += f" Did you mean {close!r}?"
    command = " ".join(["tdlg", *filter(None, [context.invoked_subcommand])])
    return f"{text} Use `{command} --help` for help."


def _is_plain(error: Exception) -> bool:
    """Whether the message alone is enough for the user; any other error is a bug of this package."""
    is_of_polars = any(kind.__module__.startswith("polars") for kind in type(error).__mro__)
    return isinstance(error, ValueError | OSError | ImportError | MemoryError) or is_of_polars


def _of_system(error: Exception) -> str:
    """The message of an error of the operating system; empty for any other error."""
    if isinstance(error, MemoryError):
        return f"There is not enough memory. {error}".strip()
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "stdin or stdout is closed. Give the paths of files."
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


# ---- messages of the library in the words of the shell

OTHER_NAMES = {"random_state": "seed", "token": "token_file"}  # parameters whose option has another name
SAME_EFFECT = {"decay": "method"}  # parameters without an option, and the option to change instead
ARGUMENT = re.compile(  # src='a', features=['a', 'b'], decay=NoDecay(), tol=0.1, or src= where the user has to find it
    r"""\b([a-z_]+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^]]*\]|\{[^}]*\}|\w+\([^)]*\)|[\w.+-]*\w)?"""
)


def in_shell_words(message: Exception, context: Any) -> str:
    """An error or a warning on one line: hints with options in place of parameters, without those about Python code.

    context : of the group of all commands, which knows the command that runs.
    """
    if not isinstance(message, TdlgError | TdlgWarning):
        return one_line(str(message))
    hints = (_with_options(hint, context) for hint in message.args[1:])
    return one_line(" ".join([message.problem, *filter(None, hints)]))


def _with_options(hint: str, context: Any) -> str | None:
    if "`" in hint:
        return None
    found = {match[0]: _as_option(match[1], match[2], context) for match in ARGUMENT.finditer(hint)}
    return None if None in found.values() else ARGUMENT.sub(lambda match: str(found[match[0]]), hint)


def _as_option(name: str, value: str | None, context: Any) -> str | None:
    if name in SAME_EFFECT:
        instead = _option(SAME_EFFECT[name], context, context.invoked_subcommand)
        return None if instead is None else f"another {instead}"
    name = OTHER_NAMES.get(name, name)
    commands = [context.invoked_subcommand, *COMMANDS]
    option = next(filter(None, (_option(name, context, command) for command in commands)), None)
    return None if option is None else " ".join([option, *_shown(value)])


def _option(name: str, context: Any, command: str | None) -> str | None:
    """The option of a command for a parameter of the library; None if it has none."""
    found = context.command.get_command(context, command or "")
    options = [one for one in getattr(found, "params", []) if one.param_type_name == "option" and one.name == name]
    return max(options[0].opts, key=len) if options else None


def _shown(text: str | None) -> list[str]:
    """The value behind an option, as a shell takes it; nothing for a flag and where the user has to find the value."""
    if text is None or text == "True":
        return []
    value = ast.literal_eval(text)
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return [shlex.quote(str(value))]


def heed_termination() -> None:
    """Let SIGTERM, by which systems stop services, end a command as Ctrl-C does; a second one does not hurry it."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    output.interrupt(number, frame)
