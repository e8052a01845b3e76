"""The lab's own chat questions: short to ask, short to answer, and easy for a reader to judge.

A small chat model answers most of them sensibly within 8 to 48 tokens. Nothing depends on the answers being right.
"""

from __future__ import annotations

QUESTIONS = (
    "What is the capital of France?",
    "Name three primary colours.",
    "What do bees make?",
    "How many days are there in a week?",
    "Why do leaves fall in autumn?",
    "What is a library for?",
    "Name two animals that can fly.",
    "What rhymes with cat?",
    "How do I boil an egg?",
    "What is the opposite of hot?",
    "Which planet do we live on?",
    "What is ice made of?",
    "Give me a short greeting for a friend.",
    "What is the capital of Japan?",
    "Name four fruits.",
    "Why is the sky blue?",
    "What does a baker do?",
    "How many legs does a spider have?",
    "What is the largest ocean on Earth?",
    "Write one sentence about the sea.",
    "What is bread made from?",
    "Name the four seasons.",
    "What is the capital of Italy?",
    "Which animal is known as man's best friend?",
    "What do plants need to grow?",
    "How should I store fresh basil?",
    "What is a bicycle?",
    "What is the capital of Egypt?",
    "Name three musical instruments.",
    "What causes rain?",
    "Write a short poem about a lamp.",
    "What does a thermometer measure?",
    "Which meal do people eat in the morning?",
    "How many minutes are in an hour?",
    "What is a good name for a small dog?",
    "Why do we sleep?",
    "Name two things that are yellow.",
    "What is tea?",
    "What is the capital of Spain?",
    "Give one tip for learning to swim.",
)
