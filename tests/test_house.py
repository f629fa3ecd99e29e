"""Checks the house: imports between rooms, where Spark may be imported, module docstrings, and what pages say."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1]
SOURCE = HOUSE / "src" / "penstock"
LONGEST_FILE = 500
MOST_IMPORTS = 20  # of modules of this project
# "Rows in, answers out" and "a name comes in; a stream goes out" say what passes through, not what a module does.
RIDDLE = re.compile(r"\b(in|into)\b.*\bout\b|\b(comes?|goes?) (in|out)\b", re.IGNORECASE)

# From left to right; rooms in one line do not know each other.
ROOMS = (
    ("printable",),
    ("errors",),
    ("model",),
    ("sources",),
    ("schedule",),
    ("language",),
    ("evaluate",),
    ("share",),
    ("report",),
    ("sim",),
    ("reproduce",),
    ("store",),
    ("kernel",),
    ("spark",),
    ("sinks",),
    ("catalog",),
    ("stream",),
    ("statements",),
    ("control",),
    ("engine",),
    ("testing",),
    ("project",),
    ("bench", "calibrate", "demo"),
    ("cli",),
)
PLACE = {room: place for place, rooms in enumerate(ROOMS) for room in rooms}
SPARK_ROOMS = {"spark", "bench"}
TYPED_BY_SPARK = {"engine", "stream", "testing"}  # import pyspark for types only


@dataclass(frozen=True, slots=True)
class Import:
    file: Path
    line: int
    module: str
    for_types: bool

    @property
    def room(self) -> str:
        return room_of(self.file)

    def __str__(self) -> str:
        return f"{self.file.relative_to(HOUSE)}:{self.line} imports {self.module}"


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return sorted(file for file in SOURCE.rglob("*.py") if file != SOURCE / "__init__.py")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def imports_of(file: Path) -> Iterator[Import]:
    tree = tree_of(file)
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    typed = {id(node) for block in blocks for part in block.body for node in ast.walk(part)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            modules = [node.module or ""]
            if node.module == "penstock":
                modules = [f"penstock.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(file, node.lineno, module, id(node) in typed) for module in modules)


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(found for file in sources() for found in imports_of(file))


def knows_its_place(found: Import) -> bool:
    target = found.module.split(".")[1]
    if target == found.room or target not in PLACE:
        return target == found.room or not (SOURCE / target).exists()  # a name of the package itself, not a room
    return PLACE[target] < PLACE[found.room]


def test_every_room_has_its_place() -> None:
    assert {room_of(file) for file in sources()} - PLACE.keys() - {"__main__"} == set()


def test_rooms_know_their_left_neighbours_only() -> None:
    inside = [f for f in all_imports() if f.module.startswith("penstock.") and f.room in PLACE]
    assert [str(found) for found in inside if not knows_its_place(found)] == []


def test_only_the_spark_room_imports_pyspark() -> None:
    sparked = [f for f in all_imports() if f.module.split(".")[0] in ("pyspark", "py4j") and f.room not in SPARK_ROOMS]
    assert [str(found) for found in sparked if not (found.room in TYPED_BY_SPARK and found.for_types)] == []


def test_sql_text_is_read_by_one_parser() -> None:
    grammar = SOURCE / "language" / "grammar"
    files = [file for file in SOURCE.rglob("*.py") if grammar not in file.parents]
    found = [line.strip() for file in files for line in re.findall(r"^.*import.*$", file.read_text(), re.MULTILINE)]
    of_sqlglot = {line for line in found if re.match(r"(import|from) sqlglot\b", line)}
    assert of_sqlglot == {"from sqlglot import exp", "from sqlglot import expressions"}  # its nodes only


def test_commands_print_in_one_place_only() -> None:
    """What others wrote is escaped there."""
    printing = re.compile(r"click\.s?echo|\bprint\(|sys\.std(out|err)\.write")
    files = [file for file in sources() if room_of(file) == "cli" and file.name != "printing.py"]
    found = {file.name for file in files if printing.search(file.read_text(encoding="utf-8"))}
    assert found == {"simulating.py"}  # tables of rich, whose cells are unmarked


def test_nothing_needs_pandas() -> None:
    assert [str(found) for found in all_imports() if found.module.split(".")[0] == "pandas"] == []


def test_no_file_is_too_long() -> None:
    lengths = {str(f.relative_to(HOUSE)): len(f.read_text(encoding="utf-8").splitlines()) for f in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_module_needs_more_than_twenty_others() -> None:
    inside = {(f.file, f.module) for f in all_imports() if f.module.startswith("penstock.")}
    counted = Counter(str(file.relative_to(SOURCE)) for file, _ in inside)
    assert {name: number for name, number in counted.items() if number > MOST_IMPORTS and name != "engine.py"} == {}


def test_the_licence_is_apache_2() -> None:
    text = (HOUSE / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_constraints_are_exact_versions_without_places() -> None:
    lines = (HOUSE / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!]+", line)] == []
    assert [line for line in lines if "://" in line or "--" in line or "@" in line] == []


def test_every_dependency_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=]", line)[0].lower() for line in asked}
    pinned = {line.split("==")[0].lower() for line in (HOUSE / "constraints.txt").read_text().splitlines()}
    assert names - pinned == set()
    assert not any(line.startswith("pandas") for line in project["dependencies"])


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_the_commands_that_a_page_names_are_make_targets(name: str) -> None:
    page = HOUSE / name
    if not page.exists():
        pytest.skip(f"{name} is not written yet")
    named = set(re.findall(r"(?:^|`)\s*(?:\$ )?make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (HOUSE / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named - targets == set()


def test_every_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for file in sources():
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def head_of(file: Path) -> str:
    docstring = ast.get_docstring(tree_of(file))
    return (docstring or "").split("\n")[0]


def test_every_module_says_in_a_sentence_what_it_does() -> None:
    files = [SOURCE / "__init__.py", *sources(), *sorted((HOUSE / "bench").rglob("*.py"))]
    heads = {str(file.relative_to(HOUSE)): head_of(file) for file in files}
    assert {name: head for name, head in heads.items() if not head.endswith(".")} == {}
    assert {name: head for name, head in heads.items() if RIDDLE.search(head)} == {}


# -- tests see what users see -----------------------------------------------------------------------------------------


def is_private(name: str) -> bool:
    """Tell whether a name is nobody else's; ``_repr_html_`` is IPython's, and ``_jvm`` and its like are Spark's."""
    return name.startswith("_") and not name.endswith("_") and not name.startswith("_j")


@cache
def private_names() -> frozenset[str]:
    """Return the private functions, classes, attributes and variables of the package."""
    return frozenset(name for file in sources() for name in names_given_in(tree_of(file)))


def names_given_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found = name
            case ast.Name(id=name, ctx=ast.Store()):
                found = name
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found = name
            case _:
                continue
        if is_private(found):
            yield found


def names_reached_for_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find names after a dot, imported names, and names that getattr, hasattr or a patch is given as text."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr") | ast.Attribute(attr="setattr")):
                given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                yield from ((node.lineno, text.split(".")[-1]) for text in given if isinstance(text, str))


def test_tests_touch_nothing_private_of_the_package() -> None:
    found = []
    for file in sorted((HOUSE / "tests").rglob("*.py")):
        tree = tree_of(file)
        reached = [(line, name) for line, name in names_reached_for_in(tree) if name in private_names()]
        own = set(names_given_in(tree)) if reached else set()
        found += [f"{file.relative_to(HOUSE)}:{line} {name}" for line, name in reached if name not in own]
    assert found == []
