"""The documents are true and complete: what the lab offers is in them, and everything that they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.write_metrics import render, sections
from docs.write_options import arguments_of, commands_of
from docs.write_validity import render as validity_page
from engine.cli import build_parser as engine_parser
from engine.core.config import EXECUTIONS, TIMINGS
from engine.core.kv_layout import KVLayout
from engine.core.presets import ENGINES, PRESETS
from engine.metrics.glossary import GLOSSARY
from engine.metrics.metrics import METRICS
from engine.validity.check import Check
from engine.validity.validity import CHECKS
from pages.parts.glossary.entries import all_groups
from pages.report.command import build_parser as pages_parser
from store.cli.main import build_parser as store_parser
from store.snapshot.catalog import tables
from tests.support.app_server import ROOT
from tests.support.project_files import tracked_files

README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
# Files that CONTRIBUTING's recipes tell to make.
EXAMPLES = {
    "engine/core/schedulers/shortest_scheduler.py",
    "pages/hello.py",
    "pages/parts/hello",
    "store/migrations/0007_name.sql",
    "tests/core/schedulers/test_scheduler_shortest.py",
    "tests/pages/test_pages_hello.py",
}
GENERATED = {"metrics.md", "options.md", "validity.md"}
PARSERS = {
    f"{program} {name}": command
    for program, parser in (("engine", engine_parser()), ("store", store_parser()), ("pages", pages_parser()))
    for name, command in commands_of(parser).items()
}
MAX_PAGE_LINES = 150
MAX_COLUMNS = 120


def options_of(command: str) -> set[str]:
    """The long options of a command."""
    flags = (flag for argument in arguments_of(PARSERS[command]) for flag in argument.option_strings)
    return {flag for flag in flags if flag.startswith("--")}


def section(document: str, heading: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    _, found, rest = document.partition(f"\n## {heading}\n")
    assert found, heading
    return rest.partition("\n## ")[0]


def first_cells(table: str) -> set[str]:
    """Every name in the first column of the tables of a text."""
    cells = re.findall(r"^\| (.+?) \|", table, flags=re.M)
    return {name.strip("`") for cell in cells for name in cell.split(", ")}


def is_explained(name: str) -> bool:
    """Whether the glossary has an entry of that name, or one whose meaning names it."""
    words = re.compile(rf"\b{name}\b")
    return any(words.search(f"{entry.word} {entry.meaning}") for entry in GLOSSARY)


def subclasses(kind: type) -> set[type]:
    found = set(kind.__subclasses__())
    return found | {each for child in found for each in subclasses(child)}


@pytest.mark.parametrize("command", list(PARSERS))
def test_every_command_is_in_the_readme_and_in_the_options(command: str) -> None:
    assert command in first_cells(section(README, "Commands"))
    listed = section((ROOT / "docs/options.md").read_text(), f"`python -m {command}`")
    shared = section((ROOT / "docs/options.md").read_text(), "Settings of a run")
    options = options_of(command)
    assert "--json" in options
    assert options - set(re.findall(r"--[a-z][a-z-]+", listed + shared)) == set()


def test_the_readme_lists_no_other_command() -> None:
    assert first_cells(section(README, "Commands")) - set(PARSERS) == {".venv/bin/python -m …"}


@pytest.mark.parametrize("name", ["README.md", "docs/commands.md"])
def test_every_option_that_a_document_names_exists(name: str) -> None:
    existing = {option for command in PARSERS for option in options_of(command)} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / name).read_text())) - existing == set()


def test_every_page_is_in_the_readme() -> None:
    titles = re.findall(r'st\.Page\("pages/\w+\.py", title="([^"]+)"', (ROOT / "app.py").read_text())
    assert "Bench" in titles
    assert first_cells(section(README, "Pages")) - {"page"} == set(titles)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_in_the_documents(engine: str) -> None:
    assert engine in first_cells(section(ARCHITECTURE, "Engines"))
    assert engine in {entry.word for entry in GLOSSARY}


@pytest.mark.parametrize("layout", sorted(each.name for each in subclasses(KVLayout)))
def test_every_kv_layout_is_in_the_documents(layout: str) -> None:
    assert f"`{layout}`" in section(ARCHITECTURE, "Engines")
    assert is_explained(layout)
    assert layout in {preset.kv_layout for preset in PRESETS.values()}


@pytest.mark.parametrize("name", [*EXECUTIONS, *TIMINGS])
def test_every_execution_and_timing_is_in_the_documents(name: str) -> None:
    assert f"`{name}`" in ARCHITECTURE
    assert name in {entry.word for entry in GLOSSARY}


def test_every_folder_is_in_the_architecture() -> None:
    packages = [
        path.parent.relative_to(ROOT).as_posix()
        for top in ("engine", "store", "pages")
        for path in (ROOT / top).glob("*/__init__.py")
    ]
    named = first_cells(section(ARCHITECTURE, "Folders"))
    assert set(packages) - named - {"pages/parts"} == set()


def test_every_document_is_linked_from_the_readme() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    parts = {page for page in pages if page.startswith("docs/performance-")}  # docs/performance.md links to these
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README))
    assert pages - parts == linked
    performance = (ROOT / "docs/performance.md").read_text()
    assert {f"docs/{name}" for name in re.findall(r"\]\((performance-[\w-]+\.md)\)", performance)} == parts


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_a_page_fits_a_reader(path: Path) -> None:
    lines = path.read_text().splitlines()
    if path.name not in GENERATED:
        assert len(lines) < MAX_PAGE_LINES
    wide = [line for line in lines if len(line) > MAX_COLUMNS and not line.startswith("|")]
    assert path.name in GENERATED or wide == []


def test_every_recipe_is_there() -> None:
    recipes = re.findall(r"^### (.+)$", section(CONTRIBUTING, "Recipes"), flags=re.M)
    assert recipes == ["A policy", "A KV layout", "A page", "A metric", "An option", "A migration"]


def test_links_between_documents_lead_somewhere() -> None:
    assert ROOT / "README.md" in DOCUMENTS
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in DOCUMENTS
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


def test_every_table_of_queries_is_in_its_document() -> None:
    queries = (ROOT / "docs/queries.md").read_text()
    assert [table.name for table in tables() if f"`{table.name}`" not in queries] == []


def test_every_metric_is_explained() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert {metric.name for metric in METRICS} <= {entry.name for group in all_groups() for entry in group.entries}
    for metric in METRICS:
        assert re.search(rf"^\| `{metric.name}` \| .*{re.escape(metric.label)}", page, flags=re.M), metric.name


def test_the_metrics_page_is_what_the_definitions_say() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == render(), "write it again: make docs"


def test_the_validity_page_is_what_the_definitions_say() -> None:
    assert (ROOT / "docs/validity.md").read_text() == validity_page(), "write it again: make docs"


def test_no_metric_is_in_two_sections() -> None:
    names = [metric.name for metrics in sections().values() for metric in metrics]
    assert sorted(names) == sorted({metric.name for metric in METRICS})


def test_paths_named_in_documents_exist() -> None:
    named = {
        (path.name, target)
        for path in DOCUMENTS
        for target in re.findall(r"(?:`|\s)((?:engine|store|pages|tests|docs|benchmarks)/[\w/.-]*\w)", path.read_text())
    }
    assert ("architecture.md", "engine/core/schedulers/scheduler.py") in named
    missing = {(name, target) for name, target in named if not (ROOT / target).exists()}
    assert missing <= {("CONTRIBUTING.md", example) for example in EXAMPLES}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_badge_is_explained(check: Check) -> None:
    row = next(line for line in (ROOT / "docs/validity.md").read_text().splitlines() if f"`{check.name}`" in line)
    assert check.label in row
    assert check.fault in row
    assert check.label in {entry.title for group in all_groups() for entry in group.entries}


def test_names_of_the_recipes_are_in_the_code() -> None:
    code = "\n".join(path.read_text() for path in tracked_files() if path.suffix in (".py", ".sql", ".toml"))
    words = re.findall(r"`([A-Za-z_.]+)(?:\(\w*\))?`", section(CONTRIBUTING, "Recipes"))
    names = {word for word in words if word not in {"shortest", "name", "pages.hello", "pages.parts.hello"}}
    assert "Preset" in names
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", code)} == set()
