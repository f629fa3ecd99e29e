"""Defines the ``penstock`` command, which lists its subcommands by section."""

from __future__ import annotations

from typing import Final

import click

from penstock import __version__
from penstock.cli.asking import ask, backfill
from penstock.cli.benchmarks import bench
from penstock.cli.calibrating import calibrate, capacity
from penstock.cli.checking import check
from penstock.cli.completing import completion
from penstock.cli.demonstration import demo
from penstock.cli.exits import EXIT_CODES
from penstock.cli.explaining import explain
from penstock.cli.init import init
from penstock.cli.policy import policy, shed
from penstock.cli.queries import add, drop, pause, resume
from penstock.cli.reproducing import reproduce
from penstock.cli.running import run
from penstock.cli.simulating import sim
from penstock.cli.state import state
from penstock.cli.status import queries, status
from penstock.cli.testing import test
from penstock.cli.top import top
from penstock.errors import nearest

SECTIONS: Final = {
    "Projects": (init, check, test, explain, run),
    "A running engine": (status, top, queries, add, drop, pause, resume, ask, backfill, policy, shed),
    "Scheduling": (sim, capacity, reproduce),
    "More": (state, demo, bench, calibrate, completion),
}


class Sections(click.Group):
    """A group that lists its commands by section, and says which one may be meant by another word."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; of one that there is not, name one of a group, or one that is spelled nearly so."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and name[:1].isalpha():
            groups = [
                one.name for one in self.commands.values() if isinstance(one, click.Group) and name in one.commands
            ]
            hint = f'Did you mean "{groups[0]} {name}"?' if groups else nearest(name, self.commands)
            if hint is not None:
                ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section as a list."""
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                width = formatter.width - max(len(name) for name in self.commands) - 6
                formatter.write_dl([(c.name or "", c.get_short_help_str(width)) for c in commands])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(cls=Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
def cli() -> None:
    """Run hundreds of continuous queries over shared streams as one Spark pipeline.

    A project is a folder with penstock.yml (streams, tables, sinks) and queries/*.sql, one query a file. Begin with:

    \b
      penstock init market && cd market
      penstock check
      penstock run --once --flush --show 3
    """


for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)
