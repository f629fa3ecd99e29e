"""Writes HTML pages that need no other file, and the page of an explanation."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources

from penstock.report.markup import escaped, paragraph, section
from penstock.report.sharing import plan_figures, sharing_picture
from penstock.share.explain.explanation import Explanation, StreamPlan


def page(title: str, sections: Iterable[str], *, lead: str = "") -> str:
    """Frame sections of HTML as a page; title and lead are plain text."""
    style = resources.files("penstock.report").joinpath("page.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escaped(title)}</title><style>{style}</style>'
    )
    intro = f'<p class="lead">{escaped(lead)}</p>' if lead else ""
    body = f"<main><header><h1>{escaped(title)}</h1>{intro}</header>{''.join(sections)}</main>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def explain_page(explanation: Explanation) -> str:
    """Show every stream's plan: figures, the picture, and the plan as text."""
    lead = "Queries over one stream share its slices. Their names unfold under each condition."
    sections = [_stream_section(stream) for stream in explanation.streams]
    return page("Who shares what", sections or [paragraph("There are no streams yet.")], lead=lead)


def _stream_section(stream: StreamPlan) -> str:
    """Show one stream's plan."""
    work = paragraph(f"{str(stream.work).capitalize()}.") if stream.work is not None else ""
    text = f"<details><summary>The plan as text</summary><pre>{escaped(stream)}</pre></details>"
    note = f'<p class="note">{escaped(stream.strategy)}, {escaped(stream.rate)}</p>'
    note += "".join(f'<p class="note">{escaped(line.strip())}</p>' for line in stream.pairs)
    return section(f"Stream {stream.stream}", note, plan_figures(stream), sharing_picture(stream), work, text)
