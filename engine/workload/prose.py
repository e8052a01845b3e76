"""Real text for prompts of exact lengths: a few pages of the lab's own prose and where to start reading them.

Passage 0 reads the prose from its first sentence on, over and over for as long as asked; passage 1 starts one sentence
later, and so on. Once every sentence has been a start, the second words follow, then the third, until every word has:
so many passages differ from their first word on, and the next one is passage 0 again. Text is cut by characters here;
how long a token is only a tokenizer knows.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("prose.txt")


@cache
def prose() -> str:
    """All of it, in one line."""
    return " ".join(_FILE.read_text(encoding="utf-8").split())


@cache
def starts() -> tuple[int, ...]:
    """The character at which each passage starts: every first word of a sentence, then every second, and so on."""
    places = []
    for sentence in re.finditer(r"\S.*?[.?!](?= |$)", prose()):
        for place, word in enumerate(re.finditer(r"\S+", sentence[0])):
            places.append((place, sentence.start() + word.start()))
    return tuple(start for _, start in sorted(places))


@cache
def num_sentences() -> int:
    """How many passages, counted from 0, begin with a whole sentence."""
    return len(re.findall(r"[.?!](?= |$)", prose()))


def passage_text(passage: int, characters: int) -> str:
    """The first `characters` characters of the `passage`-th passage, 0 or more."""
    assert passage >= 0
    start = starts()[passage % len(starts())]
    text = prose() + " "
    repeats = (start + characters) // len(text) + 1
    return (text * repeats)[start : start + characters]


@cache
def prose_digest() -> str:
    """Sixteen hexadecimal characters that change when the prose does."""
    return hashlib.sha256(prose().encode()).hexdigest()[:16]
