"""Shapes of published language models, for estimates of memory and time.

The sizes are those of the configuration files that were published with the weights; `parameters` is the
number of learned numbers in those files, and `learned` counts the same from the sizes. RMS norms hold one
vector each, layer norms two; a gated feed-forward network has three matrices, a plain one two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from attention_core.cost import check_heads, check_size


@dataclass(frozen=True)
class Model:
    """The sizes of a decoder.

    Raises ValueError where one is not a whole number above 0 or key heads cannot be shared out equally.
    """

    title: str
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    d_head: int
    d_ff: int
    gated: bool  # the feed-forward network has a third matrix
    vocabulary: int
    context: int  # tokens that it was published for
    parameters: int = 0  # in the published file; 0 for one's own
    positions: int = 0  # rows of a learned position table
    norm: Literal["rms", "layer", "one layer"] = "rms"  # "one layer": a single layer norm in a block
    biases: bool = False  # every product in a block has one
    tied: bool = False  # the output product uses the embedding table
    source: str = ""

    def __post_init__(self) -> None:
        for name in (
            "n_layers", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "vocabulary", "context"
        ):  # fmt: skip
            check_size(name, getattr(self, name))
        check_heads(self.n_heads, self.n_kv_heads)

    @property
    def attention_weights(self) -> int:
        """Learned numbers in W_Q, W_K, W_V and W_O of one layer."""
        return 2 * self.d_model * self.d_head * (self.n_heads + self.n_kv_heads)

    @property
    def network_weights(self) -> int:
        """Learned numbers in the matrices of one feed-forward network."""
        return (3 if self.gated else 2) * self.d_model * self.d_ff

    @property
    def output_weights(self) -> int:
        """Learned numbers in the product that makes logits."""
        return self.d_model * self.vocabulary

    @property
    def step_weights(self) -> int:
        """Numbers in the matrices that a step multiplies by; the embedding table is only looked up."""
        return self.n_layers * (self.attention_weights + self.network_weights) + self.output_weights

    @property
    def learned(self) -> int:
        """All learned numbers: matrices, tables, norms and biases."""
        d = self.d_model
        tables = d * (self.positions + (0 if self.tied else self.vocabulary))
        norms = {
            "rms": 2 * self.n_layers + 1,
            "layer": 4 * self.n_layers + 2,
            "one layer": 2 * self.n_layers + 2,
        }
        beside = self.d_head * (self.n_heads + 2 * self.n_kv_heads) + d + self.d_ff + d
        return self.step_weights + tables + norms[self.norm] * d + self.biases * self.n_layers * beside


# fmt: off
_LLAMA_2 = "Llama 2, Touvron et al. 2023, and the params.json of its release, July 2023"
_LLAMA_3 = "Llama 3, the params.json of its release, April 2024"
_GPT_2 = "GPT-2, Radford et al. 2019, and the hparams.json of its release"
_MISTRAL = "Mistral 7B, Jiang et al. 2023, table 1, and its params.json"
_FALCON = "Falcon, Almazrouei et al. 2023, and the config.json of falcon-7b"
_LLAMA_2_7B = Model("Llama 2 7B", 32, 4096, 32, 32, 128, 11008, True, 32_000, 4096, 6_738_415_616,
                    source=_LLAMA_2)

MODELS = {
    "gpt2": Model("GPT-2 small", 12, 768, 12, 12, 64, 3072, False, 50_257, 1024, 124_439_808,
                  positions=1024, norm="layer", biases=True, tied=True, source=_GPT_2),
    "gpt2-xl": Model("GPT-2 XL", 48, 1600, 25, 25, 64, 6400, False, 50_257, 1024, 1_557_611_200,
                     positions=1024, norm="layer", biases=True, tied=True, source=_GPT_2),
    "falcon-7b": Model("Falcon 7B", 32, 4544, 71, 1, 64, 18_176, False, 65_024, 2048, 6_921_720_704,
                       norm="one layer", tied=True, source=_FALCON),
    "mistral-7b": Model("Mistral 7B", 32, 4096, 32, 8, 128, 14_336, True, 32_000, 8192, 7_241_732_096,
                        source=_MISTRAL),
    "llama2-7b": _LLAMA_2_7B,
    "llama2-13b": replace(_LLAMA_2_7B, title="Llama 2 13B", n_layers=40, d_model=5120, n_heads=40,
                          n_kv_heads=40, d_ff=13_824, parameters=13_015_864_320),
    "llama2-70b": replace(_LLAMA_2_7B, title="Llama 2 70B", n_layers=80, d_model=8192, n_heads=64,
                          n_kv_heads=8, d_ff=28_672, parameters=68_976_648_192),
    "llama3-8b": Model("Llama 3 8B", 32, 4096, 32, 8, 128, 14_336, True, 128_256, 8192, 8_030_261_248,
                       source=_LLAMA_3),
    "llama3-70b": Model("Llama 3 70B", 80, 8192, 64, 8, 128, 28_672, True, 128_256, 8192, 70_553_706_496,
                        source=_LLAMA_3),
}
# fmt: on
