"""Prompts: exact shares, every question before any comes again, and prose enough for any length."""

import re
from collections import Counter

import numpy as np
import pytest

from engine.core.request import ExactPrompt, Prompt, TextPrompt
from engine.workload.prompts import QUESTIONS, PromptMix, apportion, draw_prompts, parse_prompts
from engine.workload.prose import num_sentences, passage_text, prose, starts


def draw(text: str, count: int, seed: int = 0, lines: tuple[str, ...] = ()) -> tuple[Prompt, ...]:
    return draw_prompts(parse_prompts(text), count, np.random.default_rng(seed), lines)


def lengths(prompts: tuple[Prompt, ...]) -> list[int]:
    return [p.tokens for p in prompts if isinstance(p, ExactPrompt)]


def texts(prompts: tuple[Prompt, ...]) -> list[str]:
    return [p.text for p in prompts if isinstance(p, TextPrompt)]


def test_there_are_forty_different_questions() -> None:
    assert len(QUESTIONS) == len(set(QUESTIONS)) == 40
    assert all(len(question) <= 60 for question in QUESTIONS)


def test_every_question_comes_once_before_any_comes_again() -> None:
    asked = texts(draw("chat", 100))
    assert sorted(asked[:40]) == sorted(asked[40:80]) == sorted(QUESTIONS)
    assert asked[:40] != asked[40:80]
    assert len(set(asked[80:])) == 20


def test_questions_go_through_the_chat_template_and_are_called_chat() -> None:
    prompt = draw("chat", 1)[0]
    assert isinstance(prompt, TextPrompt)
    assert (prompt.chat, prompt.label) == (True, "chat")


def test_equal_shares_are_as_equal_as_they_can_be() -> None:
    # Ten over three lengths: 4, 3, 3; the spare one goes to the first.
    counts = Counter(lengths(draw("p16,p64,p256", 10)))
    assert counts == {16: 4, 64: 3, 256: 3}


def test_weights_give_their_shares_in_an_order_from_the_seed() -> None:
    asked = lengths(draw("p16:3,p4096:1", 16))
    assert Counter(asked) == {16: 12, 4096: 4}
    assert asked != sorted(asked)
    assert asked != lengths(draw("p16:3,p4096:1", 16, seed=1))


@pytest.mark.parametrize(
    ("weights", "count", "shares"),
    [
        ((1, 1), 4, [2, 2]),
        ((1, 1), 5, [3, 2]),
        ((1, 1, 1), 2, [1, 1, 0]),
        ((3, 1), 10, [8, 2]),  # 7.5 and 2.5: equal remainders, the earlier goes up
        ((5, 3, 1), 10, [6, 3, 1]),  # 5.56, 3.33, 1.11: the one spare goes to .56
        ((0.25, 0.75), 3, [1, 2]),  # 0.75 and 2.25
        ((1, 2), 0, [0, 0]),
    ],
)
def test_the_largest_remainders_go_up(weights: tuple[float, ...], count: int, shares: list[int]) -> None:
    assert apportion(weights, count) == shares


def test_exact_prompts_of_one_workload_start_at_different_places() -> None:
    prompts = draw("p16", 500)
    beginnings = {passage_text(p.passage, 40) for p in prompts if isinstance(p, ExactPrompt)}
    assert len(beginnings) == 500


def test_a_files_lines_keep_their_order_and_come_again() -> None:
    prompts = draw("file", 5, lines=("one", "two"))
    assert texts(prompts) == ["one", "two", "one", "two", "one"]
    assert {p.label for p in prompts} == {"file"}


def test_a_file_without_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="prompt file: it holds no prompts"):
        draw("file", 1)


def test_a_mix_reads_lengths_and_weights() -> None:
    assert parse_prompts("p16, p64:2.5") == PromptMix(source="exact", lengths=(16, 64), weights=(1.0, 2.5))
    assert parse_prompts("chat") == PromptMix(source="chat")


@pytest.mark.parametrize("text", ["", "p", "16", "p16,", "q16", "p-1", "p1.5", "chat,p16", "p16;p64", "p16:"])
def test_unreadable_prompts_say_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"use chat, exact lengths as p16,p64, lengths with weights"):
        parse_prompts(text)


@pytest.mark.parametrize("text", ["p0", "p131073", "p99999999999999"])
def test_a_length_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="use lengths of 1 to 131,072 tokens"):
        parse_prompts(text)


@pytest.mark.parametrize("weight", ["x", "0", "-1", "nan", "inf", "1e7"])
def test_a_weight_out_of_range_is_refused(weight: str) -> None:
    with pytest.raises(ValueError, match="use weights above 0, up to 1,000,000"):
        parse_prompts(f"p16:{weight}")


def test_the_prose_is_real_and_long_enough() -> None:
    words = re.findall(r"[A-Za-z']+", prose())
    assert len(words) >= 1500
    assert len({word.lower() for word in words}) >= 600
    assert num_sentences() >= 100


def test_the_first_passages_start_at_one_sentence_after_the_other() -> None:
    assert passage_text(0, 31) == "A library is a machine for meet"
    assert passage_text(1, 32) == "Someone who died four hundred ye"
    # After every sentence has been a start, the second words follow.
    assert passage_text(num_sentences(), 20) == "library is a machine"


def test_every_word_is_the_start_of_one_passage() -> None:
    num_words = len(prose().split())
    assert len(starts()) == len(set(starts())) == num_words
    assert all(start == 0 or prose()[start - 1] == " " for start in starts())
    assert passage_text(num_words, 100) == passage_text(0, 100)


def test_a_passage_longer_than_the_prose_goes_round() -> None:
    length = len(prose())
    text = passage_text(1, 2 * length)
    assert len(text) == 2 * length
    start = starts()[1]
    assert text.startswith(prose()[start:] + " " + prose()[:start])
    assert text[length + 1 :] == text[: length - 1]


def test_no_characters_are_no_text() -> None:
    assert passage_text(0, 0) == ""
