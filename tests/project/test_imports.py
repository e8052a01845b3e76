"""Data flows one way: the import rules of pyproject.toml hold, and each of them catches a breach."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.app_server import ROOT

PACKAGES = ("engine", "store", "pages")
MODEL_LIBRARIES = ("torch", "transformers")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over the packages of `folder`, by the rules in its pyproject.toml."""
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run([linter, "--no-cache"], cwd=folder, capture_output=True, text=True)


def loaded_by(*modules: str) -> set[str]:
    """The top-level packages that a fresh Python has loaded after importing `modules`."""
    code = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def modules_under(package: str) -> list[str]:
    """Every module below `package` by its dotted name, entry points left out."""
    files = sorted((ROOT / package.replace(".", "/")).rglob("*.py"))
    dotted = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return [name.removesuffix(".__init__") for name in dotted if not name.endswith("__main__")]


def test_import_rules_hold() -> None:
    linted = lint_imports(ROOT)
    assert linted.returncode == 0, linted.stdout
    assert "0 broken" in linted.stdout


BREACHES = [
    ("engine/core/request.py", "torch"),
    ("engine/metrics/metrics.py", "pyarrow"),
    ("engine/core/config.py", "engine.runlog.schema"),
    ("engine/runlog/schema.py", "torch"),
    ("engine/runlog/reader.py", "engine.runtime.engine"),
    ("engine/launcher/job.py", "transformers"),
    ("engine/launcher/job.py", "engine.runtime.environment"),
    ("engine/runtime/engine.py", "duckdb"),
    ("engine/cli.py", "store"),
    ("store/__init__.py", "streamlit"),
    ("store/__init__.py", "engine.launcher.job"),
    ("pages/figures/colors.py", "streamlit"),
    ("pages/figures/colors.py", "store"),
    ("pages/parts/shared/markdown.py", "torch"),
    ("pages/parts/shared/markdown.py", "engine.runtime.environment"),
    ("pages/parts/sweep/form.py", "pages.parts.load.form"),
]


@pytest.fixture(scope="module")
def caught(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter reports of a copy of the packages with all of BREACHES in it, one line per import."""
    copy = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for module, forbidden in BREACHES:
        with (copy / module).open("a") as file:
            file.write(f"\nimport {forbidden}\n")
    linted = lint_imports(copy)
    assert linted.returncode == 1
    return re.sub(r"\s+", " ", linted.stdout)


@pytest.mark.parametrize(("module", "forbidden"), BREACHES)
def test_a_forbidden_import_is_caught(caught: str, module: str, forbidden: str) -> None:
    importer = module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert re.search(rf"{importer} -> {forbidden}\b", caught)


def test_the_app_imports_only_pages_and_services() -> None:
    allowed = {"__future__", "streamlit", "pages", "store", "engine"}
    tree = ast.parse((ROOT / "app.py").read_text())
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for name in names:
        assert name.partition(".")[0] in allowed | set(sys.stdlib_module_names)
        assert not name.startswith(("engine.runtime", "engine.commands", "engine.cli"))


def test_core_loads_no_large_library() -> None:
    loaded = loaded_by(*modules_under("engine.core"))
    assert "numpy" in loaded
    assert not loaded & {*MODEL_LIBRARIES, "pyarrow", "duckdb", "pandas", "streamlit", "plotly"}


@pytest.mark.parametrize("package", ["engine.runlog", "engine.launcher", "store", "pages.figures", "pages.parts"])
def test_imports_of_the_app_load_no_model_library(package: str) -> None:
    loaded = loaded_by(*modules_under(package))
    assert package.partition(".")[0] in loaded
    assert not loaded & set(MODEL_LIBRARIES)


def test_the_history_table_loads_no_widget_of_an_experiment() -> None:
    code = "import sys, pages.parts.history.table; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "pages.parts.history.table" in ran.stdout.split()
    assert not {"pages.parts.experiments.progress", "pages.parts.experiments.form"} & set(ran.stdout.split())


def test_help_loads_no_model_library() -> None:
    loaded = loaded_by("engine.cli", *modules_under("engine.commands"))
    assert "engine" in loaded
    assert not loaded & set(MODEL_LIBRARIES)


def page_layers() -> tuple[set[str], set[str]]:
    """Page scripts and folders of page parts that the contract "the pages' layers" lists."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == "the pages' layers")
    modules = {module for layer in layers for module in layer.split(" | ")}
    folders = {module for module in modules if module.startswith("pages.parts.")}
    return modules - folders - {"pages.figures", "pages.report"}, folders


def test_every_page_and_its_folder_is_in_the_import_rules() -> None:
    scripts, folders = page_layers()
    assert scripts == {f"pages.{path.stem}" for path in (ROOT / "pages").glob("*.py") if path.stem != "__init__"}
    assert folders == {f"pages.parts.{path.parent.name}" for path in (ROOT / "pages/parts").glob("*/__init__.py")}
