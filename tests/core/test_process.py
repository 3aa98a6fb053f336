"""What the system tells of the control group of a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.core import cpu_periods


def test_periods_of_a_control_group_are_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "cpu.stat"
    monkeypatch.setattr("feedpipe.core.process._CPU_PERIODS", (f"{tmp_path}/none", f"{stat}"))
    for periods, throttled in ((3, 1), (50, 40)):
        stat.write_text(f"usage_usec 7\nnr_periods {periods}\nnr_throttled {throttled}\n")
        assert cpu_periods() == (periods, throttled)


@pytest.mark.parametrize("text", [None, "usage_usec 7\n", "nr_periods 0\nnr_throttled 0\n"])
def test_without_a_limit_the_files_are_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    stat = tmp_path / "cpu.stat"
    monkeypatch.setattr("feedpipe.core.process._CPU_PERIODS", (f"{stat}",))
    if text is not None:
        stat.write_text(text)
    assert cpu_periods() == (0, 0)
    stat.write_text("nr_periods 5\nnr_throttled 2\n")
    assert cpu_periods() == (0, 0)
