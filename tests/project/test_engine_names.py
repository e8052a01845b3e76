"""Code asks a preset what an engine does, not what it is called: a new policy joins by its file and one preset."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from engine.core.presets import ENGINES
from tests.support.app_server import ROOT
from tests.support.project_files import tracked_python

QUOTED = re.compile(rf"'(?:{'|'.join(ENGINES)})'")  # inside a longer text, such as SQL
LAYERS = ("engine", "store", "pages")
ALLOWED = {
    "engine/core/presets.py": "the presets",
    "engine/core/kv_layout.py": "the layout of that name",
    "engine/runtime/paged_runner.py": "the layout of that name",
    "engine/core/config.py": "the default of a run",
    "engine/commands/memory.py": "the default of a command",
    "engine/commands/overhead.py": "the default of a command",
    "engine/experiments/sweep_plan.py": "the default of a sweep",
    "engine/memory/memory_plan.py": "the default of an estimate",
    "engine/predictions/published_conditions.py": "published text",
    "engine/predictions/published_grades.py": "published text",
    "engine/predictions/published_predictions.py": "published text",
    "engine/runtime/measuring/calibration.py": "the baseline",
    "engine/runtime/measuring/logit_error.py": "the baseline",
    "engine/runtime/measuring/parity.py": "the baseline",
    "pages/figures/colors.py": "the first two colors",
    "pages/parts/memory/controls.py": "the default of a page, and its example",
    "pages/parts/shared/fields.py": "the defaults of a page",
    "pages/parts/bench/controls.py": "asks which settings apply",
    "pages/parts/bench/scenarios.py": "the engines that a scenario compares",
    "pages/parts/bench/settings.py": "the engines that are compared by default",
    "pages/parts/bench/workload_text.py": "its text",
}
SAMPLES = ("pages/figures/",)  # figures that draw sample runs when started alone


def literals(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is an engine's name, or has one in quotes."""
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        if isinstance(node, ast.Constant) and (text in ENGINES or QUOTED.search(text)):
            yield node.lineno, text[:80]


def test_no_code_decides_by_the_name_of_an_engine() -> None:
    found = []
    for path in tracked_python():
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] not in LAYERS or name in ALLOWED or name.startswith(SAMPLES):
            continue
        found += [f"{name}:{line}: {text}" for line, text in literals(path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", ['a = b == "serial"', "sql = \"engine = 'chunked'\"", "f\"{a} IN ('paged')\""])
def test_an_engine_is_found(line: str) -> None:
    assert list(literals(line))


def test_a_word_of_a_sentence_is_no_name() -> None:
    assert not list(literals('help = "static: when to form a batch"'))
