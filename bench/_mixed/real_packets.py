"""Reads an hour of real packets, if their file is at hand, with queries as a network's operators have them.

The packets are those of LBL-PKT-4 (Paxson and Floyd 1995): all but TCP's data, 471,638 of them, most without a host.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from bench._mixed.workloads import Load, cut

FILE: Final = Path("lbl-pkt-4") / "packets.csv.gz"
START_US: Final = 759_189_600_000_000  # 1994-01-21T22:00:00Z
COLUMNS: Final = "ts TIMESTAMP, kind STRING, src INT, dst INT, sport INT, dport INT, flags STRING"
SERVICES: Final = {53: "dns", 111: "rpc", 123: "ntp", 161: "snmp", 21: "ftp", 23: "telnet", 25: "smtp", 119: "nntp"}
KEYS: Final = ("", "kind", "src", "dst", "src, dst", "dport", "kind, flags")
WINDOWS: Final = ("10 s SLIDE 5 s", "60 s SLIDE 10 s", "5 MIN SLIDE 1 MIN", "10 MIN SLIDE 90 s")
CONDITIONS: Final = ("", "", "kind = 'udp'", "dport < 1024", "flags = 'S'", "src IS NOT NULL AND dport <> 53")
OUTPUTS: Final = (
    "count(*) AS n",
    "count(*) AS n, count(DISTINCT dst) AS peers",
    "max(dport) AS highest, min(sport) AS lowest",
    "top(5, dport) AS ports",
    "percentile(sport, 0.9) AS p90, avg(sport) AS mean",
)


def data_folder() -> Path:
    """Return where real data sets are looked for."""
    return Path(os.environ.get("PENSTOCK_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def real_packets(folder: Path, rows: int, files: int) -> Load | None:
    """Cut the first packets into files; None where there are none."""
    source = data_folder() / FILE
    if not source.is_file():
        return None
    table = pcsv.read_csv(source).slice(0, rows)
    ts = pc.add(table["ts_us"].cast(pa.int64()), START_US).cast(pa.timestamp("us", tz="UTC"))
    numbers = {name: table[name].cast(pa.int32()) for name in ("src", "dst", "sport", "dport")}
    texts = {name: table[name].cast(pa.string()) for name in ("kind", "flags")}
    columns = {"ts": ts, "kind": texts["kind"], **numbers, "flags": texts["flags"]}
    cut(pa.table(columns), folder, files)
    services = folder.parent / "services.csv"
    pcsv.write_csv(pa.table({"dport": list(SERVICES), "service": list(SERVICES.values())}), services)
    joined = (
        f"CREATE TABLE services (dport INT, service STRING) USING csv OPTIONS (path = '{services}', header = true)",
    )
    return Load("packets", folder, COLUMNS, table.num_rows, files, packet_queries(), joined)


def packet_queries(count: int = 40) -> dict[str, str]:
    """Write queries of eight groupings, one of them by what a joined table tells of a port."""
    found = {}
    for number in range(count):
        keys, window = KEYS[number % len(KEYS)], WINDOWS[number // 2 % len(WINDOWS)]
        outputs, condition = OUTPUTS[number // 3 % len(OUTPUTS)], CONDITIONS[number % len(CONDITIONS)]
        if "DISTINCT" in outputs and "dst" in keys:
            outputs = OUTPUTS[0]
        where = f" WHERE {condition}" if condition else ""
        listed, grouped = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
        found[f"p{number:02d}"] = f"SELECT {listed}{outputs} FROM s [RANGE {window}]{where}{grouped}"
    for number, window in enumerate(WINDOWS):
        text = f"SELECT service, count(*) AS n FROM s [RANGE {window}] JOIN services USING (dport) GROUP BY service"
        found[f"j{number:02d}"] = text
    return found
