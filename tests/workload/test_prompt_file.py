"""Prompt files: one reader for the page and the command line, bounded, and of regular files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.workload.prompt_file import MAX_PROMPT_FILE_BYTES, prompt_lines, read_prompt_file
from tests.support.no_break import nb

ODD = "one\u2028still one\ntwo\x0bstill two\nthree\x85x\n"  # separators that str.splitlines breaks at


def test_lines_end_at_newlines_alone(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text(ODD, encoding="utf-8", newline="")
    assert read_prompt_file(file) == ("one\u2028still one", "two\x0bstill two", "three\x85x")
    assert prompt_lines(ODD.encode(), "upload") == read_prompt_file(file)


def test_a_mark_of_byte_order_and_blank_lines_are_skipped() -> None:
    content = "\ufeffWhat is ice?\r\n\r\n  Name a cat. \n".encode()
    assert prompt_lines(content, "upload") == ("What is ice?", "Name a cat.")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "upload: no prompts in it; write one prompt per line"),
        (b" \n \n", "upload: no prompts in it; write one prompt per line"),
        (b"\xff\xfe\x00z", "upload: not UTF-8 text; save it as UTF-8"),
        (b"x" * (MAX_PROMPT_FILE_BYTES + 1), nb("upload: larger than 20 MiB; use fewer or shorter prompts")),
    ],
)
def test_unusable_content_says_why(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prompt_lines(content, "upload")


def test_devices_pipes_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), pipe, link):
        with pytest.raises(ValueError, match="not a regular file; name a text file"):
            read_prompt_file(path)
    for path, reason in ((tmp_path, "Is a directory|not a regular file"), (tmp_path / "none", "No such file")):
        with pytest.raises(ValueError, match=reason):
            read_prompt_file(path)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    """A file of 1 TiB, without blocks on disk."""
    file = tmp_path / "large.txt"
    file.touch()
    os.truncate(file, 2**40)
    with pytest.raises(ValueError, match=nb("larger than 20 MiB")):
        read_prompt_file(file)
