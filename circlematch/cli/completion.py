"""`circlematch completion SHELL`: a script that completes commands, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from circlematch import pretrained
from circlematch.cli.options import Commands, add_command

SHELLS = ("bash", "zsh", "fish")
MODEL_OPTIONS = ("--model", "--teacher")


@dataclass(frozen=True)
class _Level:
    """A command by its words, such as ("data", "get"): what may follow, and what may follow its options."""

    path: tuple[str, ...]
    commands: dict[str, str]  # name -> help
    options: dict[str, tuple[str, ...]]  # option -> its values; () for any value or none
    helps: dict[str, str]


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Print a script that completes commands and options in a shell."
    parser = add_command(commands, "completion", summary, "circlematch completion bash >> ~/.bashrc", run)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"One of {', '.join(SHELLS)}.")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    from circlematch.cli import build_parser

    levels = list(_levels(build_parser(), ()))
    print(_fish(levels) if options.shell == "fish" else _bash(levels, zsh=options.shell == "zsh"))
    return 0


def _levels(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[_Level]:
    """The parser and those of its commands."""
    commands: dict[str, str] = {}
    options: dict[str, tuple[str, ...]] = {}
    helps: dict[str, str] = {}
    inner: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = {choice.dest: choice.help or "" for choice in action._choices_actions}
            inner = list(action.choices.items())
        values = tuple(map(str, action.choices or ())) if action.option_strings else ()
        for name in action.option_strings:
            options[name] = tuple(pretrained.names()) if name in MODEL_OPTIONS else values
            helps[name] = (action.help or "").partition(".")[0] % {"default": action.default}
        if not action.option_strings and not isinstance(action, argparse._SubParsersAction) and action.choices:
            commands |= {str(choice): "" for choice in action.choices}
    yield _Level(path, commands, options, helps)
    for name, one in inner:
        yield from _levels(one, (*path, name))


def _bash(levels: list[_Level], zsh: bool) -> str:
    """For bash, and for zsh through its bash emulation. Where nothing fits, file names are completed."""
    known = " | ".join(f'"{" ".join(("", *level.path))}"' for level in levels if level.path)
    after_option = "\n".join(
        f'        "{" ".join((*level.path, option)).strip()}") offered="{" ".join(values)}" ;;'
        for level in levels
        for option, values in level.options.items()
        if values
    )
    after_command = "\n".join(
        f'            "{" ".join(level.path)}") offered="{" ".join((*level.commands, *level.options))}" ;;'
        for level in levels
    )
    head = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" if zsh else ""
    return f"""{head}_circlematch() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word offered=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$command $word" in
            {known}) command="$command $word" ;;
        esac
    done
    command="${{command# }}"
    case "${{command:+$command }}$previous" in
{after_option}
        *)
            case "$command" in
{after_command}
            esac ;;
    esac
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
}}
complete -o default -F _circlematch circlematch"""


def _fish(levels: list[_Level]) -> str:
    lines = []
    for level in levels:
        seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in level.path)
        below = f"not __fish_seen_subcommand_from {' '.join(level.commands)}" if level.commands else ""
        for name, text in level.commands.items():
            where = " ; and ".join(part for part in (seen.replace(" and ", " ; and "), below) if part)
            lines.append(f"complete -c circlematch -f -n {_quoted(where)} -a {name} -d {_quoted(text)}")
        for option, values in level.options.items():
            where = (seen or "__fish_use_subcommand").replace(" and ", " ; and ")
            flag = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            value = f" -x -a {_quoted(' '.join(values))}" if values else ""
            text = _quoted(level.helps[option])
            lines.append(f"complete -c circlematch -n {_quoted(where)} {flag}{value} -d {text}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
