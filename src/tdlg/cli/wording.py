"""Messages of the library in the words of the shell: parameters are written as options."""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any

from tdlg.cli.terminal import one_line
from tdlg.exceptions import TdlgError, TdlgWarning

__all__ = ["in_shell_words"]

OTHER_NAMES = {"random_state": "seed", "token": "token_file"}  # parameters whose option has another name
SAME_EFFECT = {"decay": "method"}  # parameters without an option, and the option to change instead
ARGUMENT = (
    re.compile(  # src='a', features=['a', 'b'], decay=NoDecay(), tol=0.1, or src= where the user has to find the value
        r"""\b([a-z_]+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^]]*\]|\{[^}]*\}|\w+\([^)]*\)|[\w.+-]*\w)?"""
    )
)


def in_shell_words(message: Exception, context: Any) -> str:
    """The text of an error or a warning on one line, with parameters of the library written as options.

    Parameters
    ----------
    message
        The error or warning. Its hints on parameters that are not options of any command are left out.
    context
        The context of the group of all commands, which knows the command that runs.
    """
    if not isinstance(message, TdlgError | TdlgWarning):
        return one_line(str(message))
    hints = (_with_options(hint, context) for hint in message.args[1:])
    return one_line(" ".join([message.problem, *filter(None, hints)]))


def _with_options(hint: str, context: Any) -> str | None:
    """A hint with options in place of parameters; None if it is about Python code or a parameter that is no option."""
    if "`" in hint:
        return None
    found = {match[0]: _as_option(match[1], match[2], context) for match in ARGUMENT.finditer(hint)}
    return None if None in found.values() else ARGUMENT.sub(lambda match: str(found[match[0]]), hint)


def _as_option(name: str, value: str | None, context: Any) -> str | None:
    here, anywhere = _options(context)
    if name in SAME_EFFECT:
        instead = here.get(SAME_EFFECT[name])
        return None if instead is None else f"another {instead}"
    option = {**anywhere, **here}.get(OTHER_NAMES.get(name, name))
    return None if option is None else " ".join([option, *_shown(value)])


def _options(context: Any) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the command that runs, and those of all commands, by the name of their parameter."""
    found = {
        name: {
            str(given.name): max(given.opts, key=len) for given in command.params if given.param_type_name == "option"
        }
        for name, command in context.command.commands.items()
    }
    return found.get(context.invoked_subcommand or "", {}), {k: v for given in found.values() for k, v in given.items()}


def _shown(text: str | None) -> list[str]:
    """The value behind an option, as a shell takes it; nothing for a flag and where the user has to find the value."""
    if text is None or text == "True":
        return []
    value = ast.literal_eval(text)
    if isinstance(value, list):
        value = ",".join(map(str, value))
    return [shlex.quote(str(value))]
