"""The documents are true: every option and command is in them, and all that they name exists."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.write_metrics import render, sections
from docs.write_validity import render as validity_page
from engine.metrics.metrics import METRICS
from engine.validity.validity import CHECKS
from tests.support.app_server import ROOT

COMMANDS = {
    "engine": ("run", "sweep", "arrivals", "overhead", "parity", "memory", "simulate", "models", "calibrate"),
    "store": ("ingest", "list", "query", "export", "import", "verify"),
}


def help_of(*command: str) -> str:
    ran = subprocess.run([sys.executable, "-m", *command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def options_of(package: str, command: str) -> set[str]:
    """The long options that a command's --help names."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", help_of(package, command))) - {"--help"}


@pytest.mark.parametrize(("package", "command"), [(p, c) for p, commands in COMMANDS.items() for c in commands])
def test_every_option_is_documented(package: str, command: str) -> None:
    options = options_of(package, command)
    assert "--json" in options
    documented = set(re.findall(r"--[a-z][a-z-]+", (ROOT / "README.md").read_text()))
    assert options - documented == set()


def test_every_documented_option_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme[readme.index("## Commands") : readme.index("\n## ", readme.index("## Commands") + 1)]
    existing = {o for package, commands in COMMANDS.items() for c in commands for o in options_of(package, c)}
    assert set(re.findall(r"--[a-z][a-z-]+", section)) - existing - {"--help"} == set()


@pytest.mark.parametrize("package", list(COMMANDS))
def test_the_list_of_commands_is_whole(package: str) -> None:
    """What --help offers is what the tests above walk through."""
    offered = re.findall(r"^    ([a-z]+)\b", help_of(package), flags=re.M)
    assert tuple(offered) == COMMANDS[package]


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    assert ROOT / "README.md" in documents
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in documents
        for target in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if "://" not in target and not (path.parent / target).exists()
    ]
    assert broken == []


def test_make_targets_named_in_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    named = {
        target
        for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
        for target in re.findall(r"(?:^ {4}|`)make ([a-z]+)", path.read_text(), flags=re.M)
    }
    assert {"app", "test", "setup"} <= named
    assert named - targets == set()


def test_every_metric_is_explained() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    for metric in METRICS:
        assert re.search(rf"^\| `{metric.name}` \| .*{re.escape(metric.label)}", page, flags=re.M), metric.name


def test_the_metrics_page_is_what_the_definitions_say() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == render(), "write it anew: make docs"


def test_the_validity_page_is_what_the_definitions_say() -> None:
    assert (ROOT / "docs/validity.md").read_text() == validity_page(), "write it anew: make docs"


def test_no_metric_stands_in_two_sections() -> None:
    names = [metric.name for metrics in sections().values() for metric in metrics]
    assert sorted(names) == sorted({metric.name for metric in METRICS})


def test_paths_named_in_documents_exist() -> None:
    named = {
        (path.name, target)
        for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
        for target in re.findall(r"(?:`|\s)((?:engine|store|pages|tests|docs|benchmarks)/[\w/.-]*\w)", path.read_text())
    }
    assert ("architecture.md", "engine/core/scheduler.py") in named
    assert {(name, target) for name, target in named if not (ROOT / target).exists()} == set()


def test_the_readme_names_badges_as_the_app_does() -> None:
    said = (ROOT / "README.md").read_text().partition("**Badges**")[2].partition("9. **")[0]
    named = {" ".join(words.split()) for words in re.findall(r"\*([^*]+)\*", said)}
    assert len(named) == 5
    assert named <= {check.label for check in CHECKS}
    assert len(CHECKS) == 11, "README says: and six more"
