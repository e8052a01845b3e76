"""The lab's own chat questions: short to ask, and easy for a reader to judge.

Most of the answers of a small chat model run on for 48 tokens and more, since a numeric budget is spent to the end
even where an answer is over before. Nothing depends on an answer being right, and not all are.
"""

from __future__ import annotations

QUESTIONS = (
    "What is the capital of France?",
    "What do bees make?",
    "What should I pack for a picnic?",
    "What is a river?",
    "Why is exercise good for you?",
    "What is a library for?",
    "Why is the sky blue?",
    "How is cheese made?",
    "What is the opposite of hot?",
    "What is a volcano?",
    "Name four fruits.",
    "How do birds fly?",
    "Why do we sleep?",
    "What is ice made of?",
    "What can I see in Paris?",
    "What does a baker do?",
    "Describe the colour blue.",
    "What is the capital of Japan?",
    "What causes rain?",
    "What is bread made from?",
    "What is music?",
    "Tell me about Rome.",
    "What do plants need to grow?",
    "Name three primary colours.",
    "List five vegetables.",
    "How do I make tea?",
    "What is a bicycle?",
    "Describe a sunny day at the beach.",
    "Give three tips for a good night's sleep.",
    "What is snow?",
    "Name three musical instruments.",
    "What is the capital of Egypt?",
    "What is gravity?",
    "Write a short poem about the sea.",
    "Tell me a short story about a cat.",
    "What does a thermometer measure?",
    "Why do people read books?",
    "What is a rainbow?",
    "Give one tip for learning to swim.",
    "What is a good breakfast?",
)
