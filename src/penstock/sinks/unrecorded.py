"""Takes back from a Parquet sink's folder what was written and not recorded: it comes again."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.sinks.growing_files import cut_back
from penstock.sinks.query_folders import read_beside


def drafts_folder(folder: Path, stem: str) -> Path:
    """Return where a writer's hidden files are."""
    return folder / f".drafts-{stem}"


def reach_file(folder: Path, stem: str) -> Path:
    """Return where a writer notes which files it lets appear, before they do."""
    return folder / f"_reach-{stem}.json"


def remove_together(folder: Path, stem: str, delivered: int) -> None:
    """Remove files that queries share and that are behind what was recorded, and hidden ones."""
    escaped = glob.escape(stem)
    for path in folder.glob(f"{escaped}*.parquet"):
        if _begins_behind(path, stem, delivered):
            path.unlink()
    for draft in folder.glob(f".{escaped}*.draft"):
        draft.unlink()


def remove_of_queries(folder: Path, stem: str, delivered: int) -> None:
    """Remove from the folders of queries what is behind what was recorded, and all hidden files."""
    drafts, reach = drafts_folder(folder, stem), read_beside(reach_file(folder, stem))
    if reach is None or reach["upto"] > delivered:
        drafts.mkdir(exist_ok=True)
        for path in _suspects(folder, stem, reach, delivered):
            if _begins_behind(path, stem, delivered):
                path.unlink(missing_ok=True)
            else:
                cut_back(path, delivered, drafts / "cut")
    shutil.rmtree(drafts, ignore_errors=True)


def _suspects(folder: Path, stem: str, reach: dict[str, Any] | None, delivered: int) -> Iterable[Path]:
    """List the files that may hold too much: those of the last write, or all if the record was set back further."""
    if reach is not None and reach["after"] == delivered:
        return [folder / str(name) for name in reach["files"]]
    return list(folder.glob(f"*/**/{glob.escape(stem)}*.parquet"))


def _begins_behind(path: Path, stem: str, delivered: int) -> bool:
    """Tell by a file's name whether its first answers are behind a number."""
    number = path.name.removeprefix(stem)[:12]
    return number.isdigit() and int(number) > delivered
