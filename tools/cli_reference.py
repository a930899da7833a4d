"""Generate the pages of the command line from its commands: ``python -m tools.cli_reference``."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import typer.main

from corrhash.cli import app

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PAGES = {
    "cli.md": ("Command line", ()),
    "cli_collections.md": (
        "Command line: collections",
        ("index", "search", "serve", "info", "export", "update", "delete", "copy", "repair"),
    ),
    "cli_feedback.md": (
        "Command line: feedback and duplicates",
        ("judgments", "improve", "duplicates"),
    ),
}
"""File names of the pages, with their titles and commands; the first one has all others."""

WIDTH = 100

OPENING = """\
# {title}

On this page you can look up every argument and option of {commands}. `corrhash COMMAND --help`
prints the same text. Other pages: {others}. `python -m tools.cli_reference` generates these pages.
An error in the input prints one message and exits with code 2. [Shared](#shared) lists the
parameters of several commands.
"""

MIN_COMMANDS = 2
"""Parameters that at least this many commands share are described once."""


def main() -> None:
    for name, page in reference().items():
        (FOLDER / name).write_text(page)
        print(f"Wrote {FOLDER / name}")


def reference() -> dict[str, str]:
    """Return the pages as Markdown, by file name."""
    root = typer.main.get_command(app)
    context = root.make_context("corrhash", [], resilient_parsing=True)
    commands = [root.get_command(context, name) for name in root.list_commands(context)]
    page_of = {name: page for page, (_, names) in PAGES.items() for name in names}
    groups: dict[str, list[Any]] = {page: [] for page in PAGES}
    for command in commands:
        groups[page_of.get(command.name, "cli.md")].append(command)
    params = {command.name: _params(command, context) for command in commands}
    return {page: _page(page, groups, params) for page in PAGES}


def _page(page: str, groups: dict[str, list[Any]], params: dict[str, list[Any]]) -> str:
    commands = groups[page]
    uses = Counter(_entry(param) for command in commands for param in params[command.name])
    shared = [entry for entry, n in uses.items() if n >= MIN_COMMANDS]
    opening = OPENING.format(
        title=PAGES[page][0],
        commands=_links(commands),
        others="; ".join(_page_link(other, groups[other]) for other in PAGES if other != page),
    )
    head, _, rest = opening.partition("\n\n")
    text = textwrap.fill(" ".join(rest.split()), WIDTH, break_on_hyphens=False)
    sections = [f"{head}\n\n{text}\n"]
    sections += [_section(command, params[command.name], shared) for command in commands]
    if shared:
        sections.append("\n".join(["## Shared", "", *_table(sorted(shared))]))
    return "\n".join(sections)


def _params(command: Any, parent: Any) -> list[Any]:
    context = type(parent)(command, info_name=command.name, parent=parent)
    return [param for param in command.get_params(context) if param.name != "help"]


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _links(commands: list[Any]) -> str:
    return ", ".join(f"[`{command.name}`](#corrhash-{command.name})" for command in commands)


def _page_link(page: str, commands: list[Any]) -> str:
    names = ", ".join(f"`{command.name}`" for command in commands)
    return f"[{PAGES[page][0]}]({page}) with {names}"


def _section(command: Any, params: list[Any], shared: list[str]) -> str:
    """Return the section of a command: usage, help, arguments and options."""
    arguments = [param for param in params if not _is_option(param)]
    options = [param for param in params if _is_option(param)]
    required = [_option(param).strip("`") for param in options if param.required]
    more = ["[OPTIONS]"] if len(options) > len(required) else []
    words = ["corrhash", command.name, *map(_usage, arguments), *required, *more]
    lines = [f"## corrhash {command.name}", ""]
    help_text, _, example = command.help.partition("Example: ")
    first, *others = _paragraphs(help_text)
    paragraphs = [f"`{' '.join(words)}`: {first}", *others]
    if example:
        paragraphs.append(f"Example: `{' '.join(example.split())}`")
    for paragraph in paragraphs:
        lines += [textwrap.fill(paragraph, WIDTH, break_on_hyphens=False), ""]
    lines += _table([entry for entry in map(_entry, params) if entry not in shared])
    common = ", ".join(_name(param) for param in params if _entry(param) in shared)
    if common:
        lines += [textwrap.fill(f"[Shared](#shared): {common}.", WIDTH, break_on_hyphens=False), ""]
    return "\n".join(lines)


def _paragraphs(text: str) -> list[str]:
    return [_plain(paragraph) for paragraph in text.strip().split("\n\n")]


def _plain(text: str) -> str:
    """Return help in one line; bold words, which name commands and options, become code."""
    return re.sub(r"\*\*(.+?)\*\*", r"`\1`", " ".join(text.split()))


def _usage(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.nargs == -1 and "[" not in name:
        name += "..."
    return name if param.required or name.startswith("[") else f"[{name}]"


def _option(param: Any) -> str:
    names = [*param.opts, *param.secondary_opts]
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    return ", ".join(f"`{name}{value if name == names[-1] else ''}`" for name in names)


def _name(param: Any) -> str:
    return _option(param) if _is_option(param) else f"`{_usage(param)}`"


def _entry(param: Any) -> str:
    """Return the table row of a parameter: names, help, default and environment variable."""
    text, _, written = _plain(param.help or "").partition(" [default: ")
    notes = [
        f"Default: {default}." for default in [written.rstrip("]") or _default(param)] if default
    ]
    notes += [f"Environment variable: `{param.envvar}`."] if param.envvar else []
    sentence = text if not text or text.endswith((".", "?")) else f"{text}."
    cells = [_name(param), " ".join([sentence, *notes])]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(param: Any) -> str:
    if _is_option(param) and param.is_flag:
        return f"`{param.opts[0]}`" if param.default else ""
    return "" if param.default in (None, "", ()) else str(param.default)


def _table(rows: list[str]) -> list[str]:
    return ["| | |", "|---|---|", *rows, ""] if rows else []


if __name__ == "__main__":
    main()
