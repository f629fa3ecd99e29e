"""Rates follow how fast a machine is; they are found once, in the background, and only for engines opened later."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from penstock.share.weave.costs import DEFAULT_RATES, Rates
from penstock.store.rates import keep_rates, keep_speeds, kept_speeds, speeds_file
from penstock.stream.background_calibration import ROUNDS, BackgroundCalibration
from penstock.stream.machine_speed import MOST, PIECES, USUAL_SECONDS, rates_at, seconds_of, stored_rates


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let speeds be measured and kept in a folder of the test's own."""
    monkeypatch.delenv("PENSTOCK_CALIBRATION", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))


def go_through(calibration: BackgroundCalibration, batches: int) -> None:
    for _ in range(batches):
        calibration.go_on()
        calibration.wait()


def test_rates_are_the_usual_ones_on_the_usual_machine_and_scaled_on_others() -> None:
    assert asdict(rates_at(USUAL_SECONDS)) == pytest.approx(asdict(DEFAULT_RATES))
    slow = rates_at({**USUAL_SECONDS, "rows": 2 * USUAL_SECONDS["rows"]})
    assert slow.sorted == pytest.approx(2 * DEFAULT_RATES.sorted)
    assert (slow.batch, slow.crowded) == pytest.approx((DEFAULT_RATES.batch, DEFAULT_RATES.crowded))
    disturbed = rates_at(dict.fromkeys(PIECES, 1e3))
    assert asdict(disturbed) == pytest.approx({name: MOST * rate for name, rate in asdict(DEFAULT_RATES).items()})


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_takes_some_milliseconds_at_most(piece: str) -> None:
    assert 0 < min(seconds_of(piece) for _ in range(3)) < 0.05


@pytest.mark.usefixtures("measuring")
def test_speeds_are_measured_once_after_batches_and_serve_engines_opened_later() -> None:
    calibration = BackgroundCalibration()
    go_through(calibration, ROUNDS * len(PIECES) - 1)
    assert kept_speeds() is None
    assert stored_rates() == DEFAULT_RATES
    go_through(calibration, 3)
    found = kept_speeds()
    assert found is not None
    assert found.keys() == PIECES.keys()
    assert stored_rates() == rates_at(found)
    written = speeds_file().read_bytes()
    go_through(BackgroundCalibration(), 2 * ROUNDS * len(PIECES))  # nothing is measured twice
    assert speeds_file().read_bytes() == written
    keep_rates(Rates(partial=5e-6))
    assert stored_rates() == Rates(partial=5e-6)  # what was calibrated comes first


@pytest.mark.usefixtures("measuring")
def test_speeds_of_another_machine_and_damaged_ones_do_not_count() -> None:
    path = keep_speeds(dict.fromkeys(PIECES, 1e-3))
    kept = json.loads(path.read_text(encoding="utf-8"))
    for text in ("no JSON", json.dumps({**kept, "machine": {}}), json.dumps({**kept, "seconds": {"rows": 1e-3}})):
        path.write_text(text, encoding="utf-8")
        assert stored_rates() == DEFAULT_RATES


@pytest.mark.usefixtures("measuring")
def test_nothing_is_measured_nor_taken_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CALIBRATION", "off")
    go_through(BackgroundCalibration(), ROUNDS * len(PIECES))
    assert not speeds_file().exists()
    keep_speeds(dict.fromkeys(PIECES, 1.0))
    assert stored_rates() == DEFAULT_RATES


@pytest.mark.usefixtures("measuring")
def test_an_older_file_of_rates_counts_and_what_it_lacks_is_usual(tmp_path: Path) -> None:
    path = keep_rates(Rates(partial=5e-6))
    kept = json.loads(path.read_text(encoding="utf-8"))
    del kept["rates"]["sorted"]
    path.write_text(json.dumps(kept), encoding="utf-8")
    assert stored_rates() == Rates(partial=5e-6)
