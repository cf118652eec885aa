r"""One whole Transformer block as a sheet: attention and a feed-forward network, each with a norm and a skip.

    pre     y = x + Attention(Norm(x)),    output = y + FeedForward(Norm(y))
    post    y = Norm(x + Attention(x)),    output = Norm(y + FeedForward(y))

| kind | norm | attention | feed-forward network | as in |
| --- | --- | --- | --- | --- |
| encoder | LayerNorm, post or pre | biases | ReLU or GELU, biases | torch.nn.TransformerEncoderLayer |
| gpt2 | LayerNorm, pre | biases | GELU in its tanh form, biases | Radford et al. 2019 |
| llama | RMSNorm, pre | RoPE in halves, key heads shared or not | SwiGLU | Touvron et al. 2023 |

Whether a token may look ahead is a matter of the mask, which is given: GPT-2 and LLaMA take a causal one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from attention_core.feedforward import feed_forward_lines
from attention_core.head_choices import Heads
from attention_core.head_sheets import heads_lines
from attention_core.multi_head import Positions
from attention_core.normalisation import layer_norm_lines, rms_norm_lines
from attention_core.operations import ADD
from attention_core.projections import Line, projection_lines
from attention_core.sheet import Lines, Sheet, mark, stage
from attention_core.sheets import X
from attention_core.stream import NORMS, Norm

Kind = Literal["encoder", "gpt2", "llama"]

WHERE = {"1": "attention", "2": "the feed-forward network"}
ATTENDED = Line("attended", "O", mark("O"), "Attention output")
OUTPUT = Line("output", "Y", mark("Y"), "Output")
SMALL = layer_norm_lines()[0][0]  # ε, given once for both norms

# fmt: off
_SUM_SAYS = {
    "1": ("What attention found for token i, added to what the token was.",
          "The skip connection: the row from before attention is still in it."),
    "2": ("What the feed-forward network made of token i, added to what the token was.",
          "The skip connection: everything that was added before is still in it."),
}
# fmt: on


@dataclass(frozen=True)
class Recipe:
    """What a kind of block is made of, where nothing else is asked for."""

    rms: bool
    norm: Norm
    biases: bool
    feed_forward: str
    positions: Positions | None = None
    residual: bool = True


RECIPES = {
    "encoder": Recipe(rms=False, norm="post", biases=True, feed_forward="relu"),
    "gpt2": Recipe(rms=False, norm="pre", biases=True, feed_forward="gelu_tanh"),
    "llama": Recipe(rms=True, norm="pre", biases=False, feed_forward="swiglu", positions="rope-half"),
}


@cache
def block_sheet(
    kind: Kind,
    n_heads: int = 1,
    n_kv_heads: int | None = None,
    *,
    d_head: int,
    d_value: int | None = None,
    norm: Norm | None = None,
    residual: bool = True,
    feed_forward: str | None = None,
    positions: Positions | None = None,
) -> Sheet:
    """A block of that kind from x to the output, every matrix on the way a line of its own.

    n_kv_heads: heads of keys and values, as many as n_heads where None. d_head and d_value: columns of a
    head, the same where d_value is None. norm "pre", "post" or "none"; residual False leaves the skips out;
    feed_forward: a kind of feed_forward_lines; positions as in heads_sheet. None is what the kind has.
    Raises ValueError for an unknown word, and where key heads cannot be shared out equally.
    """
    if kind not in RECIPES:
        raise ValueError(f"kind is one of {', '.join(RECIPES)}, not {kind!r}")
    if norm not in (None, *NORMS):
        raise ValueError(f"norm is one of {', '.join(NORMS)}, not {norm!r}")
    usual = RECIPES[kind]
    recipe = replace(
        usual,
        norm=norm or usual.norm,
        feed_forward=feed_forward or usual.feed_forward,
        positions=positions or usual.positions,
        residual=residual,
    )
    heads = Heads(
        n_heads,
        n_heads if n_kv_heads is None else n_kv_heads,
        d_head,
        d_head if d_value is None else d_value,
        biases=recipe.biases,
        positions=recipe.positions,
    )
    first = _half("1", "x", partial(_attention, heads), recipe)
    network = partial(feed_forward_lines, recipe.feed_forward, biases=recipe.biases)
    second = _half("2", first[1][-1].name, network, recipe)
    start = (replace(X, step=0), *(SMALL,) * (recipe.norm != "none"))
    *stages, last = *first[1], *second[1]
    return Sheet((*start, *first[0], *second[0]), (*stages, replace(last, **OUTPUT._asdict())))


def _half(index: str, stream: str, part: Callable[[str], Lines], recipe: Recipe) -> Lines:
    """Attention or the network on a line, with its norm and its skip; the last stage is the stream after."""
    where, source = WHERE[index], stream
    made: list[Lines] = []
    if recipe.norm == "pre":
        made.append(_norm(source, index, f"before {where}", recipe.rms))
        source = made[-1][1][-1].name
    made.append(part(source))
    if recipe.residual:
        line = Line(f"stream_{index}", f"R_{index}", mark("R", index), f"Stream after {where}")
        inputs = f"{stream} {made[-1][1][-1].name}"
        made.append(((), (stage((*line, "token d_model", 0), ADD, inputs, _SUM_SAYS[index]),)))
    if recipe.norm == "post":
        made.append(_norm(made[-1][1][-1].name, index, f"after {where}", recipe.rms))
    return tuple(g for givens, _ in made for g in givens), tuple(s for _, stages in made for s in stages)


def _norm(source: str, index: str, where: str, rms: bool) -> Lines:
    lines = rms_norm_lines if rms else layer_norm_lines
    return lines(source, index=index, where=where, epsilon=SMALL.name)


def _attention(heads: Heads, source: str) -> Lines:
    """Self-attention of the rows of a line."""
    weights, products = projection_lines((source,) * 3, biases=heads.biases)
    beside, stages = heads_lines(heads, ATTENDED)
    return (*weights, *beside), (*products, *stages)
