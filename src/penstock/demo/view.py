"""Shows the demo on a live screen or in plain lines; both fit into 80 columns."""

from __future__ import annotations

import os
import sys
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table as Grid
from rich.text import Text

from penstock.demo.story import Story, StoryStep, View
from penstock.demo.words import row_text, top_of_last_window
from penstock.model.counts import counted

LINES_SHOWN: Final = 3  # answers of a query on the screen
FEW_LINES: Final = 26  # on a lower screen, one answer less


def make_console(*, plain: bool) -> Console:
    """Make the terminal's console; no colours where they are not wanted or not possible."""
    stream = sys.stdout
    if hasattr(stream, "reconfigure") and "utf" not in (stream.encoding or "").lower():
        stream.reconfigure(errors="replace")
    bare = plain or wants_plain()
    return Console(highlight=False, no_color=bare or None, color_system=None if bare else "auto")


def wants_plain() -> bool:
    """Tell whether the terminal, or the one who set it up, asks for plain lines."""
    return not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"


def make_view(console: Console, story: Story, *, plain: bool) -> View:
    """Choose how the story is told."""
    return PlainView(console, story) if plain or wants_plain() else LiveView(console, story)


class PlainView:
    """Prints a line when a step is done, and a few while the batches go by."""

    def __init__(self, console: Console, story: Story) -> None:
        """Tell a story on a console."""
        self.console, self.story = console, story

    def __enter__(self) -> Self:
        """Begin to tell."""
        self.console.print(_title(self.story), markup=False)
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave an empty line."""
        self.console.print()

    def ended(self, step: StoryStep) -> None:
        """Print a step that is done."""
        width = min(self.console.width, 100) - 22
        self.console.print(f"  {step.name:<10} {step.text[:width]:<{width}} {step.elapsed:6.1f} s", markup=False)

    def noticed(self) -> None:
        """Print a line every quarter of the batches."""
        watching = self.story.watching
        done, every = len(watching.batches), max(1, watching.planned // 4)
        if watching.batches and watching.batches[-1].measured and done % every == 0 and done < watching.planned:
            self.console.print(f"  {'':<10} {_counted(self.story)}", markup=False)


class LiveView:
    """Shows steps, progress and the latest answers, again several times a second."""

    def __init__(self, console: Console, story: Story) -> None:
        """Tell a story on a terminal."""
        self.console, self.story = console, story
        self.spinner = Spinner("dots", style="cyan")
        self.live = Live(get_renderable=self.render, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> Self:
        """Begin to show."""
        self.live.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        """Leave the terminal as it was, with the steps that were done."""
        self.live.__exit__(None, None, None)
        if failure[0] is None:
            self.console.print(Group(Text(_title(self.story), style="bold"), self._steps()))
            self.console.print()

    def ended(self, step: StoryStep) -> None:
        """Show at once that a step is done."""
        self.live.refresh()

    def noticed(self) -> None:
        """Do nothing: the screen is drawn again soon."""

    def render(self) -> RenderableType:
        """Draw the whole screen."""
        parts: list[RenderableType] = [Text(_title(self.story), style="bold"), self._steps()]
        if self.story.watching.batches:
            parts += [Text(), self._progress(), Text(), *self._answers()]
        return Group(*parts)

    def _steps(self) -> Grid:
        """Draw a line for each step."""
        grid = Grid.grid(padding=(0, 1), expand=False)
        grid.add_column(width=1)
        grid.add_column(width=10, no_wrap=True)
        grid.add_column(width=min(self.console.width, 100) - 25, no_wrap=True, overflow="ellipsis")
        grid.add_column(width=7, justify="right", no_wrap=True)
        for step in self.story.steps:
            mark: RenderableType = self.spinner if step.seconds is None else Text("✓", style="green")
            style = "" if step.seconds is None else "dim"
            grid.add_row(mark, Text(step.name, style="bold"), Text(step.text), Text(f"{step.elapsed:.1f} s", style))
        return grid

    def _progress(self) -> Grid:
        """Draw the bar over the batches, and the counts under it."""
        watching = self.story.watching
        bar = ProgressBar(
            watching.planned,
            len(watching.batches),
            width=min(self.console.width, 100) - 26,
            complete_style="cyan",
            finished_style="green",
        )
        grid = Grid.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column()
        grid.add_column(no_wrap=True)
        grid.add_row("", bar, Text(f"{len(watching.batches)} of {watching.planned} batches"))
        grid.add_row("", Text(_counted(self.story), style="cyan"), "")
        return grid

    def _answers(self) -> list[RenderableType]:
        """Draw the latest answers of the queries shown."""
        most = LINES_SHOWN if self.console.height >= FEW_LINES + 3 else LINES_SHOWN - 1
        lines: list[RenderableType] = []
        for query in self.story.shown:
            end, rows = top_of_last_window(self.story.watching.latest.get(query.name), query, most)
            head = Text.assemble((f"  {query.name}", "bold"), (f"  {query.window}  {query.template.asks}", "dim"))
            lines.append(_one_line(head))
            texts = [f"    {end:<6} {row_text(row, query.keys)}" for row in rows] or ["    no answer yet"]
            lines += [_one_line(Text(text)) for text in texts]
        return lines


def _one_line(text: Text) -> Text:
    """Keep a text in its line, whatever the width."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _title(story: Story) -> str:
    """Say what is shown."""
    queries = counted(len(story.asked), "query", "queries")
    return f"Penstock demo: {queries} over {story.rows:,} trades, seed {story.seed}"


def _counted(story: Story) -> str:
    """Say how far the batches came."""
    watching = story.watching
    pace = f"{watching.rows_per_second:,.0f} rows/s" if any(b.measured for b in watching.batches) else "warming up"
    return f"{watching.rows:,} rows · {pace} · {watching.answers:,} answers"
