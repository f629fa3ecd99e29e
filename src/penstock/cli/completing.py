"""Implements ``penstock completion``, which prints a shell's script for completion."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from penstock.cli.printing import say

INSTALL: Final = {
    "bash": "penstock completion bash >> ~/.bash_completion",
    "zsh": "penstock completion zsh > ~/.zfunc/_penstock    (with fpath+=~/.zfunc before compinit in ~/.zshrc)",
    "fish": "penstock completion fish > ~/.config/fish/completions/penstock.fish",
}


@click.command(short_help="Print the script for completion in a shell.")
@click.argument("shell", type=click.Choice(tuple(INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and names of queries in a SHELL.

    \b
    Install it once:
      penstock completion bash >> ~/.bash_completion
      penstock completion zsh > ~/.zfunc/_penstock
      penstock completion fish > ~/.config/fish/completions/penstock.fish

    For zsh, ~/.zshrc needs fpath+=~/.zfunc before compinit. Then start a new shell.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    say(kind(ctx.find_root().command, {}, "penstock", "_PENSTOCK_COMPLETE").source().strip())
    say(f"# Install: {INSTALL[shell]}")
