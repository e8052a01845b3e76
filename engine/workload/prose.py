"""Real text for prompts of exact lengths: a few pages of the lab's own prose, and the passages cut from them.

Passage 0 starts at the first sentence, passage 1 at the second, and so on; the prose repeats as often as needed. After
the last sentence, passages start at the second word of each sentence, then at the third, until every word was a start.
All these passages differ from the first word; the next one is passage 0 again. Text is cut by characters, because only
a tokenizer knows tokens.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("prose.txt")


@cache
def prose() -> str:
    """The whole text in one line."""
    return " ".join(_FILE.read_text(encoding="utf-8").split())


@cache
def starts() -> tuple[int, ...]:
    """The character where each passage starts: at the first words of sentences, then the second words, and so on."""
    places = []
    for sentence in re.finditer(r"\S.*?[.?!](?= |$)", prose()):
        for place, word in enumerate(re.finditer(r"\S+", sentence[0])):
            places.append((place, sentence.start() + word.start()))
    return tuple(start for _, start in sorted(places))


@cache
def num_sentences() -> int:
    """The number of passages that start at the beginning of a sentence."""
    return len(re.findall(r"[.?!](?= |$)", prose()))


def passage_text(passage: int, characters: int) -> str:
    """The first `characters` characters of a passage, counted from 0."""
    assert passage >= 0
    start = starts()[passage % len(starts())]
    text = prose() + " "
    repeats = (start + characters) // len(text) + 1
    return (text * repeats)[start : start + characters]


@cache
def prose_digest() -> str:
    """Sixteen hexadecimal characters that identify the prose."""
    return hashlib.sha256(prose().encode()).hexdigest()[:16]
