"""``python -m tests.always.extremes NAME …``: run trials of what is extreme, each judging itself.

``--list`` names them. A trial prints what it claims and measures as it goes; the exit code is 1 if a claim is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.always.extremes.trial import Trial

# Name → about how many minutes it takes on two cores.
TRIALS: Final = {
    "two_engines": 2,
    "signals": 8,
    "functions": 5,
    "session_stopped": 2,
    "executors_killed": 4,
    "queries_20000": 15,
    "columns_2000": 2,
    "groups_5m": 10,
    "batches_1000": 6,
}


def tried(name: str, folder: Path) -> Trial:
    """Run one trial."""
    trial = Trial(name, folder, lambda text: print(f"  {text}", flush=True))
    print(f"{name}:", flush=True)
    began = time.monotonic()
    import_module(f"tests.always.extremes.{name}").run(trial)
    trial.measure("seconds", time.monotonic() - began)
    return trial


def listed() -> str:
    """Name the trials with what they do."""
    lines = []
    for name, minutes in TRIALS.items():
        said = (import_module(f"tests.always.extremes.{name}").__doc__ or "").splitlines()[0]
        lines.append(f"{name:18} about {minutes:2} min  {said}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.always.extremes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*TRIALS, []])
    parser.add_argument("--list", action="store_true", help="name the trials")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was claimed and measured to this file")
    given = parser.parse_args(arguments)
    if given.list or not given.names:
        print(listed())
        return 0
    trials = []
    for name in given.names:
        with tempfile.TemporaryDirectory(prefix=f"penstock-{name}-", ignore_cleanup_errors=True) as folder:
            trials.append(tried(name, Path(folder)))
    if given.json:
        given.json.write_text(json.dumps([trial.to_dict() for trial in trials], indent=2) + "\n")
    broken = [claim for trial in trials for claim in trial.broken]
    print(f"{len(broken)} broken of {sum(len(trial.claims) for trial in trials)} claims")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
