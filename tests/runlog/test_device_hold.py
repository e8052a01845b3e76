"""The message to a process that waits for a device: which run holds it, and in which lab; labs share the lock."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runlog.device_hold import busy_message, hold_device


def messages_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages to a process of the lab in `home` while run abc holds the device."""
    monkeypatch.setenv("LAB_HOME", str(home))
    messages: list[str] = []
    with pytest.raises(InterruptedError), hold_device("cpu", "run xyz", messages.append, lambda: bool(messages)):
        pytest.fail("two processes hold the device")
    return messages


def test_the_message_names_the_run_and_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "mine"))
    with hold_device("cpu", "run abc", on_wait=lambda message: None):
        ours = messages_in(tmp_path / "mine", monkeypatch)
        theirs = messages_in(tmp_path / "another of the lab in odd words", monkeypatch)
    assert ours == [f"the device is in use by run abc of this lab (process {os.getpid()})"]
    assert theirs == [
        f"the device is in use by run abc of another lab, LAB_HOME {tmp_path / 'mine'} "
        f"(process {os.getpid()}); this starts when that ends or is canceled there"
    ]


def test_a_lock_text_without_a_lab_is_passed_on() -> None:
    assert busy_message("process 7, benchmark", Path("/a")) == "the device is in use: process 7, benchmark"
    assert busy_message("another process", Path("/a")) == "the device is in use: another process"
    strange = "process 7, calibrate of the lab in /b/of the lab in /c"
    assert "LAB_HOME /b/of the lab in /c (process 7)" in busy_message(strange, Path("/a"))
