"""Finds what files of a folder belong together, and reads a sample of each kind."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import combinations, islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from penstock.errors import SourceError

ENDINGS: Final = {
    ".parquet": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
SEPARATORS: Final = (",", ";", "\t", "|")
MOST_FILES: Final = 20  # of a data set are looked into
MOST_ROWS: Final = 20_000  # of each of them
MOST_SETS: Final = 20
_SIMPLE: Final = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class DataSet:
    """Files of one format with the same columns, and the first rows of each."""

    name: str
    format: str
    path: Path  # a folder or a file
    options: dict[str, str]
    files: tuple[Path, ...]
    rows: pa.Table
    partitions: tuple[str, ...] = field(default=())  # columns that folders name, as in day=2026-01-05
    mixed: tuple[str, ...] = field(default=())  # columns that are text, as files differ about their types


def find_data(folder: Path) -> list[DataSet]:
    """Find the data sets in a folder, or the one of a file, or say that there are none."""
    if not folder.exists():
        raise SourceError(f"there is no {folder}", hint="Name a folder with files of Parquet, CSV or JSON, or a file.")
    together: dict[tuple[Path, str, tuple[str, ...]], list[Path]] = {}
    for file in _files(folder):
        format_ = _format(file)
        assert format_ is not None
        names = tuple(_sample(file, format_, _options(file, format_)).column_names)
        home = file.parent if file == folder else _above_partitions(file)
        together.setdefault((home, format_, names), []).append(file)
    if not together:
        what = f"there are no rows of Parquet, CSV or JSON in {folder}"
        raise SourceError(what, hint=f"Files end in {', '.join(ENDINGS)}, perhaps with .gz after it.")
    homes = [home for home, _, _ in together]
    alone = {home for home in homes if sum(other == home or home in other.parents for other in homes) == 1}
    alone = set() if folder.is_file() else alone  # its neighbours were not looked at
    sets = [_data_set(home, format_, files, home in alone) for (home, format_, _), files in together.items()]
    return _named_apart(sets[:MOST_SETS])


def _files(folder: Path) -> Iterator[Path]:
    """List the files that hold rows, in order."""
    for file in [folder] if folder.is_file() else sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
        if not hidden and file.is_file() and file.stat().st_size > 0 and _format(file) is not None:
            yield file


def _format(file: Path) -> str | None:
    """Tell the format of a file by its name."""
    return ENDINGS.get(Path(file.stem).suffix.lower() if file.suffix == ".gz" else file.suffix.lower())


def _above_partitions(file: Path) -> Path:
    """Return the folder of a file, above those that are called day=2026-01-05."""
    home = file.parent
    while "=" in home.name:
        home = home.parent
    return home


def _data_set(home: Path, format_: str, files: list[Path], alone: bool) -> DataSet:
    """Describe files that belong together; alone in their folder and below it they are the folder."""
    options = _options(files[0], format_)
    path = home if alone else files[0]
    if not alone and len(files) > 1:
        path, options = home, {**options, "pathGlobFilter": f"{_common(files)}*{files[0].suffix}"}
    samples = [_sample(file, format_, options) for file in files[:MOST_FILES]]
    rows, mixed = _together(files, samples, format_)
    partitions = [part.partition("=")[0] for part in files[0].relative_to(home).parts[:-1]]
    name = home.name if alone or len(files) > 1 else files[0].name.split(".")[0]
    return DataSet(_plain(name), format_, path, options, tuple(files), rows, tuple(partitions), mixed)


def _together(files: list[Path], samples: list[pa.Table], format_: str) -> tuple[pa.Table, tuple[str, ...]]:
    """Put samples of some files together; columns of text that files read as different types are text."""
    mixed = []
    for name in samples[0].column_names:
        types = [sample.schema.field(name).type for sample in samples]
        if not _unite(types):
            _refuse_other_types(files, types, name, format_)
            mixed.append(name)
            samples = [_as_text(sample, name) for sample in samples]
    return pa.concat_tables(samples, promote_options="permissive"), tuple(mixed)


def _unite(types: list[pa.DataType]) -> bool:
    """Tell whether a column of some types has one that holds all of them."""
    try:
        pa.unify_schemas([pa.schema([("value", one)]) for one in types], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return False
    return True


def _refuse_other_types(files: list[Path], types: list[pa.DataType], name: str, format_: str) -> None:
    """Refuse a column that cannot be text in all files: a Parquet file has its type, and objects and lists are none."""
    if format_ != "parquet" and not any(pa.types.is_nested(one) for one in types):
        return
    first, other = next(pair for pair in combinations(range(len(types)), 2) if not _unite([types[n] for n in pair]))
    what = f'column "{name}" is {types[first]} in {files[first]} and {types[other]} in {files[other]}'
    hint = "Put files of different types into folders of their own, or write them anew as one type."
    raise SourceError(what, hint=hint)


def _as_text(table: pa.Table, name: str) -> pa.Table:
    """Take a column for text."""
    return table.set_column(table.column_names.index(name), name, pc.cast(table[name], pa.string()))


def _common(files: list[Path]) -> str:
    """Return what the names of files begin with."""
    first, last = min(file.name for file in files), max(file.name for file in files)
    return first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def _plain(name: str) -> str:
    """Make a name that a stream can have."""
    word = _SIMPLE.sub("_", name).strip("_").lower() or "data"
    return f"data_{word}" if word[0].isdigit() else word


def _named_apart(sets: list[DataSet]) -> list[DataSet]:
    """Number data sets of one name."""
    seen: dict[str, int] = {}
    found = []
    for one in sets:
        seen[one.name] = seen.get(one.name, 0) + 1
        name = one.name if seen[one.name] == 1 else f"{one.name}_{seen[one.name]}"
        found.append(replace(one, name=name))
    return found


# Samples.


def _options(file: Path, format_: str) -> dict[str, str]:
    """Tell how a CSV file is written: its separator, and whether its first line names columns."""
    if format_ != "csv":
        return {}
    lines = _text(file).decode("utf-8-sig", errors="replace").splitlines()[:20]
    separator = max(SEPARATORS, key=lambda one: (min(line.count(one) for line in lines), lines[0].count(one)))
    first = next(csv.reader(lines[:1], delimiter=separator), [])
    header = all(re.match(r"\s*[A-Za-z_]", cell) for cell in first) and len(set(first)) == len(first)
    options = {"header": "true"} if header else {}
    return options if separator == "," else {**options, "sep": separator}


def _text(file: Path, most: int = 4 << 20) -> bytes:
    """Read the beginning of a text file, whole lines of it."""
    with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        text: bytes = stream.read(most)
    return text if len(text) < most else text[: text.rfind(b"\n") + 1]


def _sample(file: Path, format_: str, options: dict[str, str]) -> pa.Table:
    """Read the first rows of a file, with the types that they seem to have."""
    try:
        if format_ == "parquet":
            batches = pq.ParquetFile(file).iter_batches(MOST_ROWS)
            found = next(batches, None)
            schema = pq.read_schema(file)
            return schema.empty_table() if found is None else pa.Table.from_batches([found])
        text = b"".join(islice(BytesIO(_text(file)), MOST_ROWS))
        if format_ == "json":
            return _with_times(pyarrow.json.read_json(BytesIO(text)))
        parsing = pyarrow.csv.ParseOptions(delimiter=options.get("sep", ","), newlines_in_values=True)
        reading = pyarrow.csv.ReadOptions(autogenerate_column_names="header" not in options)
        table = pyarrow.csv.read_csv(BytesIO(text), reading, parsing)
        table = _with_leading_zeros(table, text, reading, parsing)
        if "header" not in options:
            table = table.rename_columns([f"_c{number}" for number in range(table.num_columns)])
        return table
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        what = f"cannot read {file}: {str(error).splitlines()[0]}"
        raise SourceError(what, hint="Move it out of the folder, or mend it.") from None


def _with_leading_zeros(
    table: pa.Table, text: bytes, reading: pyarrow.csv.ReadOptions, parsing: pyarrow.csv.ParseOptions
) -> pa.Table:
    """Take numbers some of which are written as 0042 for text: they are codes, and others of them may have letters."""
    numbers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    converting = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(numbers, pa.string()), include_columns=numbers)
    written = pyarrow.csv.read_csv(BytesIO(text), reading, parsing, converting) if numbers else table.select([])
    for name in written.column_names:
        if pc.any(pc.match_substring_regex(written[name], r"^[+-]?0[0-9]")).as_py():
            table = table.set_column(table.column_names.index(name), name, written[name])
    return table


def _with_times(table: pa.Table) -> pa.Table:
    """Read strings that are all times, as Spark does for a column that is declared as one."""
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type) and column.null_count < len(column):
            times = as_times(column)
            if times is not None:
                table = table.set_column(place, table.column_names[place], times)
    return table


def as_times(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Read strings as ISO times; None if one of them is none."""
    for type_ in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return pc.cast(column, type_)
        except pa.ArrowInvalid:
            continue
    return None
