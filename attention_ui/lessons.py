"""The lessons in reading order: the one list behind navigation, links, contents and tests."""

from __future__ import annotations

from dataclasses import dataclass

SHARED = ("mask", "n_q", "n", "d_model", "d_k", "d_v", "scaling", "tokens")  # controls beside a page


@dataclass(frozen=True)
class Lesson:
    slug: str  # file name in pages/ and path in the link
    section: str
    title: str
    question: str  # what the lesson answers, for the contents
    controls: tuple[str, ...] = SHARED  # which of the shared controls stand beside it
    part: int = 0  # its number in the series; 0 for a page outside it
    quick: bool = False  # nothing but its board, its words and the shared controls follows a shared control


LESSONS = (
    Lesson("home", "Start", "Attention, live", "", quick=True),
    Lesson(
        "walkthrough", "The calculation", "The eight steps",
        "How do Q, K and V become an output, number by number?", quick=True,
    ),
    Lesson(
        "compare", "The calculation", "Compare masks",
        "What does a mask change, on the same numbers?", SHARED[1:], quick=True,  # it draws the masks itself
    ),
    Lesson(
        "part_01_neighbours", "Lessons", "1 · Why a word needs its neighbours",
        "How can the same word mean something else in another sentence, when its row of numbers is the same?",
        ("mask", "n", "d_model", "d_v", "tokens"), part=1,
    ),
    Lesson(
        "part_02_matching", "Lessons", "2 · Q, K and V: the matching engine",
        "How does a token find out which others matter, and what does it then take from them?",
        ("d_model", "tokens"), part=2,
    ),
    Lesson(
        "part_03_scaling", "Lessons", "3 · Why divide by √d_k",
        "Why are scores divided, and why by the root of the width of a key and not by anything else?",
        ("n_q", "n", "d_model", "d_k", "tokens"), part=3,
    ),
    Lesson(
        "part_04_softmax", "Lessons", "4 · Softmax, causal masks, three tokens",
        "How does a row of scores become weights that add up to 1, and how is a key left out?",
        ("mask", "d_model", "d_k", "d_v", "tokens"), part=4,
    ),
    Lesson(
        "part_05_heads", "Lessons", "5 · Heads and positions",
        "How do several heads share one X, and how can attention tell where a token stands?",
        ("mask", "n", "d_model", "tokens"), part=5,
    ),
    Lesson(
        "part_06_normalisation", "Lessons", "6 · Normalisation and residuals",
        "What keeps numbers and gradients in range when a sum grows from layer to layer?",
        ("n", "d_model", "tokens"), part=6,
    ),
    Lesson(
        "part_07_block", "Lessons", "7 · One whole block",
        "Which numbers does one block of a Transformer work out, from its input to its output?",
        ("tokens",), part=7,
    ),
    Lesson(
        "part_08_feed_forward", "Lessons", "8 · The feed-forward network",
        "What happens to each token by itself, between one attention and the next?",
        ("n", "d_model", "tokens"), part=8,
    ),
    Lesson(
        "part_09_cost", "Lessons", "9 · The GPU cost of attention",
        "What does attention take, in operations and in bytes, and which of the two sets the time?",
        ("mask", "n", "d_model", "d_k", "tokens"), part=9,
    ),
    Lesson(
        "part_10_flash", "Lessons", "10 · FlashAttention, tile by tile",
        "How can attention be exact without ever holding the whole table of scores?",
        ("mask", "n_q", "n", "d_k", "d_v", "tokens"), part=10,
    ),
    Lesson(
        "part_11_learning", "Lessons", "11 · Predicting the next token",
        "How is a guess at the next token scored, and how does a model learn from the score?",
        ("n", "d_model", "tokens"), part=11,
    ),
    Lesson(
        "part_12_decoding", "Lessons", "12 · Prefill, decode, the first token",
        "Why is a prompt read all at once and an answer written one token at a time, with the same numbers?",
        ("n", "d_model", "d_k", "d_v", "tokens"), part=12,
    ),
    Lesson(
        "part_13_cache", "Lessons", "13 · KV cache, shared heads, pages",
        "What is kept of the tokens so far, how much memory does it take, and how can several share it?",
        ("mask", "n", "d_model", "d_k", "d_v", "tokens"), part=13,
    ),
    Lesson(
        "part_14_gradients", "Lessons", "14 · Gradients and several GPUs",
        "How is every gradient of attention found, and how do several devices share one calculation?",
        ("mask", "n_q", "n", "d_model", "d_k", "d_v", "tokens"), part=14,
    ),
    Lesson(
        "part_15_verify", "Lessons", "15 · Build, verify, profile",
        "How can you tell that an attention you wrote is right, and what does it take on a real machine?",
        ("mask", "n", "d_model", "tokens"), part=15,
    ),
)  # fmt: skip


def lesson_of(slug: str) -> Lesson:
    """The lesson of that slug. Raises ValueError when there is none."""
    for lesson in LESSONS:
        if lesson.slug == slug:
            return lesson
    raise ValueError(f"there is no lesson {slug!r}")
