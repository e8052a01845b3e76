"""Who has the device, told to one who waits: which run, and of which lab, since all labs of a user share its lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runlog.device_hold import hold_device, taken_text


def heard_from(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What somebody of the lab in `home` hears while run abc has the device."""
    monkeypatch.setenv("LAB_HOME", str(home))
    heard: list[str] = []
    with pytest.raises(InterruptedError), hold_device("cpu", "run xyz", heard.append, lambda: bool(heard)):
        pytest.fail("two have the device")
    return heard


def test_who_waits_hears_whose_run_has_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "mine"))
    with hold_device("cpu", "run abc", on_wait=lambda taken: None):
        ours = heard_from(tmp_path / "mine", monkeypatch)
        theirs = heard_from(tmp_path / "another of the lab in odd words", monkeypatch)
    assert ours == [f"the device is taken: run abc of this lab has it (process {os.getpid()})"]
    assert theirs == [
        f"the device is taken: run abc of another lab has it, the one whose LAB_HOME is {tmp_path / 'mine'} "
        f"(process {os.getpid()}); this starts by itself when that ends, or is canceled there"
    ]


def test_what_does_not_say_whose_it_is_is_passed_on() -> None:
    assert taken_text("process 7, benchmark", Path("/a")) == "the device is taken: process 7, benchmark"
    assert taken_text("another process", Path("/a")) == "the device is taken: another process"
    strange = "process 7, calibrate of the lab in /b/of the lab in /c"
    assert "whose LAB_HOME is /b/of the lab in /c (process 7)" in taken_text(strange, Path("/a"))
