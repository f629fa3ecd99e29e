"""Every kind of sink is the same sink from Python, penstock.yml and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest

import penstock as ps
from penstock.errors import SinkError
from penstock.project.folder import read_project
from penstock.sinks.protocol import Progressing, names_of
from penstock.sinks.registry import SINKS, DeclaredSink, SinkKind, declared_by, declared_kinds, written_kinds
from penstock.sinks.settings import FolderForm, TextForm, WholeForm, settings_of
from tests.project.making import TRADES, write_project
from tests.shell import Penstock, penstock

__all__ = ["penstock"]  # a fixture

KINDS = tuple(SINKS)
DECLARED = declared_kinds()
EXAMPLES = {
    "database": "postgresql://h/d",
    "schema": "answers",
    "layout": "query/day",
    "queries": "spikes, calm",
    "headers": "X-Team:ops",
    "body": '{"text": "{text}"}',
    "allow_networks": "10.0.0.0/8",
}  # settings that are text


class PagerSink:
    """A sink that needs no folder."""

    kind = "pager"

    def __init__(
        self,
        url: Annotated[str, TextForm("http://host/path", lambda t: None if "://" in t else f'is no address: "{t}"')],
        *,
        token: Annotated[str, TextForm("who may", secret=True)] = "",
        attempts: Annotated[int, WholeForm("before it is given up")] = 3,
        opened: object = None,  # by a program only
    ) -> None:
        self.url, self.token, self.attempts, self.opened = url, token, attempts, opened
        self.place = url

    def open(self, stream: str, memory: Progressing) -> Any:
        raise NotImplementedError


@pytest.fixture
def pager() -> Iterator[None]:
    SINKS["pager"] = SinkKind(PagerSink, "URL")
    yield
    del SINKS["pager"]


def example_of(kind: str, setting: Any) -> tuple[Any, str]:
    """Give a value of a setting, and its text."""
    match setting.form:
        case FolderForm():
            return Path(f"out-{kind}"), f"out-{kind}"
        case WholeForm():
            return setting.form.least, str(setting.form.least)
    text = EXAMPLES.get(setting.name, "http://localhost/")
    return text, text


def declared_in(folder: Path, text: str) -> list[DeclaredSink]:
    project = read_project(write_project(folder, f"{TRADES}\nsinks:\n{text}\n"))
    assert project.problems == ()
    return list(project.settings.sinks)


def problem_in(folder: Path, text: str) -> str:
    (problem,) = read_project(write_project(folder, f"{TRADES}\nsinks:\n{text}\n")).problems
    return str(problem)


def own(sink: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(sink).items() if not name.startswith("_")}


def folders_in(sink: Any, folder: Path) -> dict[str, Any]:
    return {name: folder / value if isinstance(value, Path) else value for name, value in own(sink).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_names_its_class_and_its_class_names_it(kind: str) -> None:
    sink = SINKS[kind].sink
    assert sink.__dict__["kind"] == kind
    assert sink.__name__ in ps.__all__
    leading = SINKS[kind].leading
    assert SINKS[kind].where == ("" if leading is None else leading.name.upper())
    assert [s.name for s in SINKS[kind].settings if s.required] == ([] if leading is None else [leading.name])
    assert all(setting.form.help for setting in SINKS[kind].settings)


@pytest.mark.parametrize("kind", DECLARED)
def test_python_yaml_and_command_line_make_the_same_sink(kind: str, tmp_path: Path) -> None:
    leading = SINKS[kind].leading
    first = () if leading is None else (example_of(kind, leading),)
    python = SINKS[kind].sink(*(value for value, _ in first))
    by_text = declared_by(":".join([kind, *(text for _, text in first)])).make()
    (by_yaml,) = declared_in(tmp_path, f"  - {kind}" + "".join(f": {text}" for _, text in first))
    assert type(python) is type(by_text) is type(by_yaml.make()) is SINKS[kind].sink
    assert own(python) == own(by_text)
    assert own(by_yaml.make()) == folders_in(python, tmp_path)
    assert names_of([by_yaml.make()])[0].split(" ")[0] == kind


@pytest.mark.parametrize("kind", DECLARED)
def test_every_setting_can_be_written_in_yaml(kind: str, tmp_path: Path) -> None:
    examples = {setting.name: example_of(kind, setting) for setting in SINKS[kind].settings}
    written = ", ".join(
        f"{name}: '{text}'" if "," in text or "{" in text else f"{name}: {text}" for name, (_, text) in examples.items()
    )
    (declared,) = declared_in(tmp_path, f"  - {kind}: {{{written}}}")
    python = SINKS[kind].sink(**{name: value for name, (value, _) in examples.items()})
    assert own(declared.make()) == folders_in(python, tmp_path)


@pytest.mark.parametrize(
    ("kind", "setting"), [(kind, s) for kind in KINDS for s in SINKS[kind].settings if isinstance(s.form, WholeForm)]
)
def test_a_number_that_is_too_small_is_a_mistake(kind: str, setting: Any, tmp_path: Path) -> None:
    (leading,) = (one.name for one in SINKS[kind].settings if one.required)
    text = example_of(kind, SINKS[kind].leading)[1]
    text = problem_in(tmp_path, f"  - {kind}: {{{leading}: {text}, {setting.name}: {setting.form.least - 1}}}")
    assert f"{setting.name} of the {kind} sink must be a whole number of at least {setting.form.least}" in text


def test_what_is_not_there_is_told_with_what_is(tmp_path: Path) -> None:
    for kind, hint in (("parket", 'Did you mean "parquet"?'), ("memory", f"kinds: {', '.join(DECLARED)}")):
        text = problem_in(tmp_path, f"  - {kind}: x")
        assert f'there is no kind of sink "{kind}"' in text
        assert hint in text
    assert 'no setting "rol_bytes"' in problem_in(tmp_path, "  - jsonl: {folder: x, rol_bytes: 3}")
    assert "the jsonl sink has no folder" in problem_in(tmp_path, "  - jsonl")
    assert "must be text, not nothing" in problem_in(tmp_path, "  - jsonl:")
    assert "Write - terminal." in problem_in(tmp_path, "  - terminal: here")
    assert "a second terminal sink" in problem_in(tmp_path, "  - terminal\n  - terminal: {}")


@pytest.mark.parametrize("text", ["kafka:topic", "parquet", "parquet:", "terminal:", "terminal:x", "memory", ":", ""])
def test_a_command_line_that_asks_for_no_sink_is_told_what_to_write(text: str) -> None:
    with pytest.raises(SinkError, match=r"write parquet:FOLDER, jsonl:FOLDER, .* or terminal"):
        declared_by(text)


def test_the_command_line_suggests_the_nearest_kind_and_lists_all(penstock: Penstock, tmp_path: Path) -> None:
    done = penstock("run", tmp_path, "--sink", "jsnl:x")
    assert done.code == 2
    assert 'Did you mean "jsonl"?' in " ".join(done.err.split())
    assert written_kinds() in " ".join(penstock("run", "--help").out.split())


def test_a_query_that_a_sink_is_for_and_that_is_not_there_is_noted(tmp_path: Path) -> None:
    sink = "sinks:\n  - webhook: {url: 'https://example.com/', queries: 'Spikes, spkes'}\n"
    folder = write_project(tmp_path, f"{TRADES}\n{sink}")
    (folder / "queries").mkdir(exist_ok=True)
    (folder / "queries" / "spikes.sql").write_text("SELECT count(*) AS n FROM trades [RANGE 1 MIN SLIDE 1 MIN]")
    project = read_project(folder)
    assert project.problems == ()
    assert 'the webhook sink is for "spkes", and there is no such query. Did you mean "spikes"?' in project.notes


def test_a_sink_without_a_folder_fits_everywhere(pager: None, tmp_path: Path) -> None:
    assert [s.name for s in settings_of(PagerSink)] == ["url", "token", "attempts"]
    assert written_kinds().endswith(":URL, terminal or pager:URL")
    by_text = declared_by("pager:http://localhost:80/a")
    (by_yaml,) = declared_in(tmp_path, '  - pager: "http://localhost:80/a"')
    assert own(by_text.make()) == own(by_yaml.make()) == own(PagerSink("http://localhost:80/a"))
    assert by_yaml.shown() == {"kind": "pager", "url": "http://localhost:80/a"}
    assert names_of([by_yaml.make()]) == ["pager http://localhost:80/a"]
    assert 'is no address: "here"' in problem_in(tmp_path, "  - pager: here")
    assert "the pager sink has no url" in problem_in(tmp_path, "  - pager: {token: t}")
    with pytest.raises(SinkError, match='url is no address: "here"'):
        declared_by("pager:here")
    twice = '  - pager: "http://a"\n  - pager: {url: "http://a", token: t}'
    assert "a second pager sink has the same url" in problem_in(tmp_path, twice)
