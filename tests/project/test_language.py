"""The project's language: words that the project does not use, and prompts whose text does not change."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.config import WorkloadConfig
from engine.workload import prompts
from engine.workload.prose import prose_digest
from engine.workload.workload import build_workload
from tests.support.app_server import ROOT
from tests.support.project_files import tracked_texts

BANNED = re.compile(
    r"\b(?:nobody|somebody|whoever|anew|mend|mended|reckon|reckoned|hence|whilst|thereof|befall)\b", re.I
)
CHECKED = ("app.py", "pages/", "engine/", "store/", "benchmarks/", "README.md", "CONTRIBUTING.md", "docs/")
PROSE = ROOT / "engine/workload/prose.txt"
TEXT_TOKENS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def checked_files() -> list[Path]:
    named = ((path, path.relative_to(ROOT).as_posix()) for path in tracked_texts())
    return [path for path, name in named if name.startswith(CHECKED) and path != PROSE]


def numbered_text(source: str) -> Iterator[tuple[int, str]]:
    """The strings and comments of Python code, line by line with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in TEXT_TOKENS:
            yield from enumerate(token.string.splitlines(), start=token.start[0])


def question_lines(source: str) -> range:
    """The lines of prompts.py that hold QUESTIONS: their text is part of every workload."""
    assigned = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    node = next(node for node in assigned if [ast.unparse(target) for target in node.targets] == ["QUESTIONS"])
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)


def banned_lines(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    lines = numbered_text(source) if path.suffix == ".py" else enumerate(source.splitlines(), start=1)
    excepted = question_lines(source) if path == Path(prompts.__file__) else range(0)
    return [
        f"{path.relative_to(ROOT)}:{number}: {found[0]}: {text.strip()}"
        for number, text in lines
        if number not in excepted and (found := BANNED.search(text))
    ]


def test_banned_words_are_not_used() -> None:
    files = checked_files()
    assert {path.relative_to(ROOT).parts[0] for path in files} == {name.rstrip("/") for name in CHECKED}
    found = [line for path in files for line in banned_lines(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["Nobody waits.", "computed anew", "to mend it", "is reckoned", "hence,"])
def test_a_banned_word_is_found(text: str) -> None:
    assert BANNED.search(text)


@pytest.mark.parametrize("text", ["recommended", "a renewal", "reckoning", "henceforth", "mend_it"])
def test_only_whole_words_are_found(text: str) -> None:
    assert not BANNED.search(text)


def test_strings_and_comments_are_checked_and_names_are_not() -> None:
    source = 'mend = 1  # a comment\nf"""first\n{mend} second"""\n'
    text = list(numbered_text(source))
    assert (1, "# a comment") in text
    assert any(number == 2 and "first" in line for number, line in text)
    assert any(number == 3 and "second" in line for number, line in text)
    assert not any("mend =" in line for _, line in text)


def test_the_questions_are_excepted_and_nothing_else_of_their_module() -> None:
    source = Path(prompts.__file__).read_text()
    lines = source.splitlines()
    excepted = question_lines(source)
    assert lines[excepted[0] - 1].startswith("QUESTIONS = (")
    assert lines[excepted[-1] - 1] == ")"
    assert len(excepted) == len(prompts.QUESTIONS) + 2


def test_the_prompts_of_the_default_workload_do_not_change() -> None:
    assert build_workload(WorkloadConfig()).digest == "20c9d41161330bac"
    assert build_workload(WorkloadConfig(requests=64)).digest == "166eb7088dff87f1"  # every question


def test_the_prose_of_exact_prompts_does_not_change() -> None:
    assert prose_digest() == "947ff13488bddb30"
    mixed = WorkloadConfig(prompts="p16,p64,p256,p1024,p4096", requests=64, budget="64-256")
    assert build_workload(mixed).digest == "ca41720fe5bacace"
