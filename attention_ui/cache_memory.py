"""Lesson 13: what the cache of a whole model takes, for published models and for one of the reader's own."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from attention_core.accelerators import NUMBERS, number_bytes
from attention_core.model_cost import cache_bytes, weight_bytes
from attention_core.models import MODELS, Model
from attention_ui import amounts, listing, prose
from attention_ui.bench import Bench
from attention_ui.choices import Amount, Choice
from attention_ui.desk import Desk

OWN = "own"


def _row(numbers: tuple[int, ...]) -> dict[str, str]:
    return {str(number): f"{number:,}" for number in numbers}


MODEL = Choice(
    "p13.model", "Model", {**{word: model.title for word, model in MODELS.items()}, OWN: "Your own"},
    "llama3-8b", kind="list",
)  # fmt: skip
TOKENS = Choice("p13.tokens", "Tokens", _row((512, 1024, 4096, 8192, 32_768, 131_072)), "8192")
BATCH = Choice("p13.batch", "Sequences", _row((1, 4, 16, 64)), "1")
TYPE = Choice("p13.type", "Numbers", {word: each.title for word, each in NUMBERS.items()}, "fp16")
LAYERS = Amount("p13.layers", "Layers", 1, 128, 32)
HEADS = Choice("p13.heads", "Heads of queries", _row((8, 16, 32, 64, 128)), "32")
KV_HEADS = Choice("p13.kv_heads", "Heads of keys and values", _row((1, 2, 4, 8, 16, 32, 64, 128)), "8")
D_HEAD = Choice("p13.d_head", "Columns of a head, d_head", _row((32, 64, 128, 256)), "128")


def own_model(bench: Bench) -> Model:
    """The reader's own sizes; never more key heads than heads of queries."""
    heads, d_head = int(HEADS.of(bench)), int(D_HEAD.of(bench))
    return replace(
        MODELS["llama3-8b"], title="Your own", n_layers=int(LAYERS.of(bench)), d_model=heads * d_head,
        n_heads=heads, n_kv_heads=min(heads, int(KV_HEADS.of(bench))), d_head=d_head, parameters=0,
        source="entered by the reader",
    )  # fmt: skip


def model_of(bench: Bench) -> Model:
    word = MODEL.of(bench)
    return own_model(bench) if word == OWN else MODELS[word]


def draw(desk: Desk) -> None:
    """The formula with the numbers of one model, then all models side by side."""
    bench = desk.bench
    model, tokens, batch, kind = model_of(bench), int(TOKENS.of(bench)), int(BATCH.of(bench)), TYPE.of(bench)
    st.latex(formula(model, tokens, batch, kind))
    prose.paragraph(said(model, tokens, batch, kind))
    if tokens > model.context and MODEL.of(bench) != OWN:
        prose.paragraph(
            f"{model.title} was published for {model.context:,} tokens; {tokens:,} are more than that.",
            kind="quiet",
        )
    models = [*MODELS.values(), own_model(bench)]
    rows = [_model_row(each, tokens, batch, kind) for each in models]
    heads = (
        "Model",
        "Layers",
        "Heads",
        "Key heads",
        "d_head",
        "For one token",
        "For all",
        "With MHA",
        "With MQA",
    )
    caption = f"K and V, {tokens:,} tokens × {batch}, {NUMBERS[kind].title}, estimated"
    listing.draw("Caches of whole models", listing.table(caption, heads, rows))
    prose.paragraph(f"Sizes of {model.title}: {model.source}.", kind="quiet")


def formula(model: Model, tokens: int, batch: int, kind: str) -> str:
    """2 · layers · key heads · d_head · tokens · sequences · bytes, in LaTeX, each number over its name."""
    parts = (
        (2, "K, V"), (model.n_layers, "layers"), (model.n_kv_heads, "key heads"), (model.d_head, "columns"),
        (tokens, "tokens"), (batch, "sequences"), (number_bytes(kind), "bytes"),
    )  # fmt: skip
    product = r" \times ".join(rf"\underset{{\text{{{name}}}}}{{{_grouped(size)}}}" for size, name in parts)
    total = cache_bytes(model, tokens, batch=batch, numbers=kind)
    return rf"{product} = {_grouped(total)} \text{{ bytes}}"


def said(model: Model, tokens: int, batch: int, kind: str) -> str:
    """The same in words, beside the weights of the model and the other ways to share heads."""
    total, one, full = (
        cache_bytes(each, tokens, batch=batch, numbers=kind)
        for each in (model, replace(model, n_kv_heads=1), replace(model, n_kv_heads=model.n_heads))
    )
    text = (
        f"{model.title}: {amounts.size(total)} of keys and values, "
        f"{amounts.size(total // (tokens * batch))} for every token. With a key head for each of its "
        f"{model.n_heads} heads it would be {amounts.size(full)}, with one for all {amounts.size(one)}."
    )
    if model.parameters:
        text += f" Its weights take {amounts.size(weight_bytes(model, numbers=kind))}."
    return text


def _model_row(model: Model, tokens: int, batch: int, kind: str) -> tuple[str, ...]:
    def size(few: int, n: int, sequences: int) -> str:
        return amounts.size(cache_bytes(replace(model, n_kv_heads=few), n, batch=sequences, numbers=kind))

    return (
        model.title, str(model.n_layers), str(model.n_heads), str(model.n_kv_heads), str(model.d_head),
        size(model.n_kv_heads, 1, 1), size(model.n_kv_heads, tokens, batch),
        size(model.n_heads, tokens, batch), size(1, tokens, batch),
    )  # fmt: skip


def _grouped(number: int) -> str:
    r"""1{,}024: a comma that LaTeX does not take for a list's."""
    return f"{number:,}".replace(",", "{,}")
