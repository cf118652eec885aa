"""The core behind the vocabulary of OPS.md: one function per op, fn(inputs, attributes) -> outputs.

Everything that is a matter of wire format stays here: numbers of other widths (computed in float64, given
back in the type they came in), heads packed into features, caches, ONNX's attribute names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import attention_core as core
from attention_core import attention, log_softmax, softmax, tensor_scatter
from attention_core.block import block_sheet
from attention_core.cross_entropy import cross_entropy, cross_entropy_grad, nll_loss
from attention_core.decoding import Cache, decode_step
from attention_core.gradients import attention_grad
from attention_core.head_choices import beside
from attention_core.head_sheets import heads_sheet
from attention_core.masks import causal, chunked, padding, prefix, segments, window
from attention_core.sheet import Sheet, run
from attention_core.tiles import flash_attention

Arrays = Mapping[str, NDArray[Any]]
Attributes = Mapping[str, Any]
Outputs = dict[str, NDArray[Any]]


def Attention(inputs: Arrays, attributes: Attributes) -> Outputs:
    """ONNX's operator: Y, present_key, present_value and, by mode, the scores after one of four stages."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    packed = q.ndim == 3
    if packed:
        q = _unpacked(q, attributes["q_num_heads"])
        k, v = (_unpacked(a, attributes["kv_num_heads"]) for a in (k, v))
    if "past_key" in inputs:
        k = np.concatenate([inputs["past_key"], k], axis=-2)
        v = np.concatenate([inputs["past_value"], v], axis=-2)
    trace = _attend(q, k, v, inputs, attributes)
    stage = (trace.scaled, trace.capped, trace.masked, trace.weights)[attributes["qk_matmul_output_mode"]]
    output = trace.output.swapaxes(-2, -3) if packed else trace.output
    return {
        "Y": _like(output.reshape(*output.shape[:2], -1) if packed else output, q),
        "present_key": k,
        "present_value": v,
        "qk_matmul_output": _like(stage, q),
    }


def AttentionTrace(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Every stage, for any leading axes."""
    q = inputs["Q"]
    trace = _attend(q, inputs["K"], inputs["V"], inputs, attributes)
    stages = {
        name: getattr(trace, name) for name in ("scores", "scaled", "capped", "masked", "weights", "output")
    }
    return {name: _like(stage, q) for name, stage in (stages | {"logsumexp": trace.lse}).items()}


def AttentionGrad(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The output, and the gradients that come back from dY."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    settings = _settings(q.shape[-2], k.shape[-2], inputs, attributes)
    back = attention_grad(_wide(q), _wide(k), _wide(v), _wide(inputs["dY"]), **settings)
    gradients = {"Y": back.output, "dQ": back.d_q, "dK": back.d_k, "dV": back.d_v}
    return {name: _like(gradient, q) for name, gradient in gradients.items()}


def FlashAttention(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The same output from tiles of scores."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    settings = _settings(q.shape[-2], k.shape[-2], inputs, attributes)
    blocks = {name: attributes[name] for name in ("block_q", "block_k")}
    output, lse = flash_attention(_wide(q), _wide(k), _wide(v), **settings, **blocks)
    return {"Y": _like(output, q), "logsumexp": _like(lse, q)}


def Decode(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The whole sequence in chunks, with a cache between them; the first chunk is the prompt."""
    q, k, v = (_wide(inputs[name]) for name in "QKV")
    settings = _settings(q.shape[-2], k.shape[-2], inputs, attributes)
    mask, bias = settings.pop("mask"), settings.pop("bias")
    outputs: list[NDArray[np.float64]] = []
    cache, start = Cache(k[..., :0, :], v[..., :0, :]), 0
    for rows in attributes["chunks"]:
        stop = start + rows
        new = [a[..., start:stop, :] for a in (q, k, v)]
        table = (..., slice(start, stop), slice(0, stop))
        step = decode_step(
            cache, *new, mask=mask[table], bias=None if bias is None else bias[table], **settings
        )
        outputs.append(step.output)
        cache, start = step.cache, stop
    return {"Y": _like(np.concatenate(outputs, axis=-2), inputs["Q"])}


def FlexAttention(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Attention with one change to the scaled scores and one to the weights."""
    q, k, v = inputs["Q"], inputs["K"], inputs["V"]
    change = _changed_scores(attributes["score_mod"], q.shape[-2], k.shape[-2])
    trace = attention(_wide(q), _wide(k), _wide(v), scale=attributes["scale"], **change)
    return {"Y": _like(_factor(attributes["prob_mod"]) * trace.weights @ trace.v, q)}


def Mask(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The boolean arrays of masks.py by the names that others use."""
    n_q, n_k, offset = attributes["n_q"], attributes["n_k"], attributes.get("offset", 0)
    frontier = causal(n_q, n_k, offset=offset)
    everywhere = np.ones((n_q, n_k), dtype=bool)
    kinds: dict[str, Callable[[], NDArray[np.bool_]]] = {
        "causal": lambda: frontier,
        "sliding_window": lambda: window(
            n_q, n_k, left=attributes["window"] - bool(attributes.get("counts_self", 0)), offset=offset
        ),
        "chunked": lambda: chunked(n_q, n_k, size=attributes["chunk"], offset=offset),
        "prefix": lambda: prefix(n_k, attributes["prefix"]) | frontier,
        "padding": lambda: padding(inputs["lengths"], n_k, side=attributes.get("side", "right")) & everywhere,
        "segments": lambda: segments(_queries(inputs["segments"], n_q, offset), inputs["segments"]),
    }
    if attributes["kind"] not in kinds:
        raise NotImplementedError(f"mask kind {attributes['kind']}")
    mask = kinds[attributes["kind"]]()
    unites = attributes["kind"] == "prefix"  # a prefix opens keys that causal would close
    return {"mask": mask & frontier if attributes.get("is_causal") and not unites else mask}


def Softmax(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Shares along an axis."""
    a = inputs["input"]
    return {"output": _like(softmax(_wide(a), attributes.get("axis", -1)), a)}


def LogSoftmax(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The logarithms of the shares."""
    a = inputs["input"]
    return {"output": _like(log_softmax(_wide(a), attributes.get("axis", -1)), a)}


def SoftmaxCrossEntropyLoss(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The loss of scores (N, C, d1, …), and the logarithms of their probabilities."""
    scores = inputs["scores"]
    loss = cross_entropy(
        _wide(scores), inputs["labels"], weight=inputs.get("weights"), axis=1, **_which(attributes)
    )
    return {"output": _like(loss, scores), "log_prob": _like(log_softmax(_wide(scores), axis=1), scores)}


def NegativeLogLikelihoodLoss(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The loss of log-probabilities (N, C, d1, …)."""
    logs = inputs["input"]
    loss = nll_loss(_wide(logs), inputs["target"], weight=inputs.get("weight"), axis=1, **_which(attributes))
    return {"loss": _like(loss, logs)}


def CrossEntropyGrad(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The loss and its gradient."""
    logits, targets = inputs["logits"], inputs["targets"]
    chosen = {**_which(attributes), "label_smoothing": attributes["label_smoothing"]}
    loss = cross_entropy(_wide(logits), targets, **chosen)
    gradient = cross_entropy_grad(_wide(logits), targets, **chosen)
    return {"loss": _like(loss, logits), "dlogits": _like(gradient, logits)}


def TensorScatter(inputs: Arrays, attributes: Attributes) -> Outputs:
    """New rows in a cache."""
    present = tensor_scatter(
        inputs["past_cache"],
        inputs["update"],
        inputs.get("write_indices"),
        axis=attributes["axis"],
        mode=attributes["mode"],
    )
    return {"present_cache": present}


def MultiHeadAttention(inputs: Arrays, attributes: Attributes) -> Outputs:
    """torch.nn.MultiheadAttention by the sheet of heads; here True in a mask means left out."""
    query, heads = inputs["query"], attributes["num_heads"]
    width = query.shape[-1] // heads
    bias, mask = _left_out(inputs, (query.shape[-2], inputs["key"].shape[-2]))
    biases = "in_proj_bias" in inputs
    sheet = heads_sheet(heads, d_head=width, d_value=width, cross=True, bias=bias is not None, biases=biases)
    given = {
        "x": query,
        "x_k": inputs["key"],
        "x_v": inputs["value"],
        "mask": mask,
        "divisor": np.sqrt(width),
    }
    given |= _torch_heads(inputs, "") | ({} if bias is None else {"bias": bias})
    values = run(sheet, {line.name: given[line.name] for line in sheet.given})
    weights = np.stack([values[f"weights_{head}"] for head in range(1, heads + 1)], axis=1)
    return {"Y": _like(values["output"], query), "weights": _like(weights, query)}


def LayerNormalization(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Over all axes from `axis` on, laid out in one row."""
    x, given = inputs["X"], _rows(inputs["X"], attributes)
    given |= {"gain": _over_row(inputs["Scale"], x, attributes)}
    if "B" in inputs:
        given["shift"] = _over_row(inputs["B"], x, attributes)
    sheet = core.layer_norm_sheet(shift="B" in inputs)
    values = core.run(sheet, given)
    kept = (*x.shape[: _axis(x, attributes)], *(1,) * (x.ndim - _axis(x, attributes)))
    statistics = {"Mean": values["mean"], "InvStdDev": 1 / values["deviation"]}
    kind = np.float32 if attributes.get("stash_type", 1) == 1 else x.dtype
    return {
        "Y": _like(values[sheet.stages[-1].name].reshape(x.shape), x),
        **{name: value.reshape(kept).astype(kind) for name, value in statistics.items()},
    }


def RMSNormalization(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Over all axes from `axis` on, laid out in one row."""
    x = inputs["X"]
    given = _rows(x, attributes) | {"gain": _over_row(inputs["scale"], x, attributes)}
    return {"Y": _like(core.run(core.rms_norm_sheet(), given)["gained"].reshape(x.shape), x)}


def Gelu(inputs: Arrays, attributes: Attributes) -> Outputs:
    """With erf, or with the tanh that comes close to it."""
    x = inputs["X"]
    form = {"none": core.gelu, "tanh": core.gelu_tanh}[attributes.get("approximate", "none")]
    return {"Y": _like(form(_wide(x)), x)}


def Swish(inputs: Arrays, attributes: Attributes) -> Outputs:
    """x / (1 + e^(−αx))."""
    x = inputs["X"]
    return {"Y": _like(core.swish(_wide(x), attributes.get("alpha", 1.0)), x)}


def GatedFFN(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The feed-forward network of Llama; PyTorch's weights are (out, in)."""
    kinds = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "relu": "reglu"}
    weights = [_wide(inputs[f"{name}_proj.weight"]).T for name in ("gate", "up", "down")]
    y = core.gated_feed_forward(_wide(inputs["x"]), *weights, kind=kinds[attributes["activation"]])
    return {"Y": _like(y, inputs["x"])}


def RotaryEmbedding(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Rows turned by given cosines and sines."""
    x, ids = inputs["X"], inputs.get("position_ids")
    heads = x if x.ndim == 4 else _unpacked(x, attributes["num_heads"])
    cos, sin = (
        _wide(cache if ids is None else cache[ids])[:, None]
        for cache in (inputs["cos_cache"], inputs["sin_cache"])
    )
    turned = attributes["rotary_embedding_dim"] or heads.shape[-1]
    if 2 * cos.shape[-1] != turned:
        raise ValueError(f"{turned} columns are to be turned, and the caches have {cos.shape[-1]}")
    turn = core.turn_pairs if attributes["interleaved"] else core.turn_halves
    y = turn(_wide(heads), cos, sin)
    return {"Y": _like(y if x.ndim == 4 else y.swapaxes(1, 2).reshape(x.shape), x)}


def Rope(inputs: Arrays, attributes: Attributes) -> Outputs:
    """Rows turned by their positions; positions (B, n) are those of a whole batch."""
    x, positions = inputs["x"], inputs["positions"]
    if positions.ndim == 2:
        positions = positions.reshape(positions.shape[0], *(1,) * (x.ndim - 3), positions.shape[1])
    y = core.rope(
        _wide(x),
        positions,
        attributes["base"],
        "interleaved" if attributes["interleaved"] else "half",
        attributes["rotary_dim"],
    )
    return {"Y": _like(y, x)}


def AlibiSlopes(inputs: Arrays, attributes: Attributes) -> Outputs:
    """One slope per head."""
    return {"slopes": core.alibi_slopes(attributes["num_heads"])}


def SinusoidalEncoding(inputs: Arrays, attributes: Attributes) -> Outputs:
    """The table of sines and cosines."""
    return {"Y": core.sinusoids(**attributes)}


def EncoderLayer(inputs: Arrays, attributes: Attributes) -> Outputs:
    """torch.nn.TransformerEncoderLayer by the sheet of a block."""
    width = inputs["x"].shape[-1] // attributes["num_heads"]
    sheet = block_sheet(
        "encoder",
        attributes["num_heads"],
        d_head=width,
        norm="pre" if attributes["norm_first"] else "post",
        feed_forward=attributes["activation"],
    )
    given = _torch_heads(inputs, "self_attn.")
    for place in "12":
        given[f"w_{place}"] = inputs[f"linear{place}.weight"].T
        given[f"b_{place}"] = inputs[f"linear{place}.bias"][None]
        given[f"gain_{place}"] = inputs[f"norm{place}.weight"][None]
        given[f"shift_{place}"] = inputs[f"norm{place}.bias"][None]
    return _block(sheet, given, inputs, attributes, causal_rule=bool(attributes["is_causal"]))


def GPT2Block(inputs: Arrays, attributes: Attributes) -> Outputs:
    """A block of GPT-2 as transformers stores it: weights (in, out), Q, K and V in one."""
    width = inputs["x"].shape[-1] // attributes["num_heads"]
    weights = np.split(inputs["attn.c_attn.weight"], 3, 1)
    biases = np.split(inputs["attn.c_attn.bias"][None], 3, 1)
    given = {f"w_{letter}": part for letter, part in zip("qkv", weights, strict=True)}
    given |= {f"b_{letter}": part for letter, part in zip("qkv", biases, strict=True)}
    for ours, theirs in (("o", "attn.c_proj"), ("1", "mlp.c_fc"), ("2", "mlp.c_proj")):
        given |= {f"w_{ours}": inputs[f"{theirs}.weight"], f"b_{ours}": inputs[f"{theirs}.bias"][None]}
    for place in "12":
        given[f"gain_{place}"] = inputs[f"ln_{place}.weight"][None]
        given[f"shift_{place}"] = inputs[f"ln_{place}.bias"][None]
    sheet = block_sheet("gpt2", attributes["num_heads"], d_head=width)
    return _block(sheet, given, inputs, attributes)


def LlamaBlock(inputs: Arrays, attributes: Attributes) -> Outputs:
    """A decoder layer of LLaMA as transformers stores it: weights (out, in), no biases."""
    width = inputs["x"].shape[-1] // attributes["num_heads"]
    sheet = block_sheet(
        "llama",
        attributes["num_heads"],
        attributes["num_kv_heads"],
        d_head=width,
        positions="rope-interleaved" if attributes["interleaved"] else "rope-half",
    )
    given = {f"w_{letter}": inputs[f"self_attn.{letter}_proj.weight"].T for letter in "qkvo"}
    given |= {f"w_{part}": inputs[f"mlp.{part}_proj.weight"].T for part in ("gate", "up", "down")}
    given["gain_1"] = inputs["input_layernorm.weight"][None]
    given["gain_2"] = inputs["post_attention_layernorm.weight"][None]
    return _block(sheet, given, inputs, attributes)


def _block(
    sheet: Sheet,
    given: Mapping[str, NDArray[Any]],
    inputs: Arrays,
    attributes: Attributes,
    *,
    causal_rule: bool = True,
) -> Outputs:
    """The sheet run on x and what was given, with the numbers that follow from the sizes."""
    x, n = inputs["x"], inputs["x"].shape[-2]
    heads = attributes["num_heads"]
    numbers = beside(
        sheet, n, n_heads=heads, d_head=x.shape[-1] // heads, base=attributes.get("rope_base", 10000.0)
    )
    mask = causal(n) if causal_rule else np.ones((n, n), dtype=bool)
    whole = {"x": x, "mask": mask, "epsilon": attributes["epsilon"], **numbers, **given}
    return {"Y": _like(run(sheet, whole)["output"], x)}


def _torch_heads(inputs: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    """The givens of the sheet of heads from torch's parameters, which are stored as (out, in)."""
    given = dict(zip(("w_q", "w_k", "w_v"), np.split(inputs[f"{prefix}in_proj_weight"].T, 3, 1), strict=True))
    given["w_o"] = inputs[f"{prefix}out_proj.weight"].T
    if f"{prefix}in_proj_bias" in inputs:
        parts = np.split(inputs[f"{prefix}in_proj_bias"][None], 3, 1)
        given |= dict(zip(("b_q", "b_k", "b_v"), parts, strict=True))
        given["b_o"] = inputs[f"{prefix}out_proj.bias"][None]
    return given


def _left_out(inputs: Arrays, table: tuple[int, int]) -> tuple[NDArray[np.float64] | None, NDArray[np.bool_]]:
    """torch's masks as the core's bias and mask, in which True means may look."""
    left_out = inputs.get("attn_mask")
    if left_out is None or left_out.dtype == np.bool_:
        bias, mask = None, np.ones(table, dtype=bool) if left_out is None else ~left_out
    else:
        bias, mask = np.where(left_out == -np.inf, 0.0, _wide(left_out)), left_out != -np.inf
    if "key_padding_mask" in inputs:
        mask = mask & ~inputs["key_padding_mask"][:, None, :]
    return bias, mask


def _attend(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], inputs: Arrays, attributes: Attributes
) -> core.AttentionTrace:
    """The core's trace."""
    return attention(_wide(q), _wide(k), _wide(v), **_settings(q.shape[-2], k.shape[-2], inputs, attributes))


def _settings(n_q: int, n_k: int, inputs: Arrays, attributes: Attributes) -> dict[str, Any]:
    """The core's keywords; the mask is all of: causal, window, the keys in use, and the mask given."""
    mask = _frontier(n_q, n_k, inputs, attributes)
    if "nonpad_kv_seqlen" in inputs:
        mask = mask & padding(inputs["nonpad_kv_seqlen"], n_k)[:, None]
    given, bias = _mask_and_bias(inputs, n_k)
    return {
        "mask": mask if given is None else _joined(mask, given),
        "bias": bias,
        "scale": attributes["scale"],
        "softcap": attributes["softcap"] or None,
    }


def _frontier(n_q: int, n_k: int, inputs: Arrays, attributes: Attributes) -> NDArray[np.bool_]:
    """(n_q, n_k) or (B, 1, n_q, n_k): causal and window, both moved by what came before the queries."""
    left, right = (
        None if attributes[f"{side}_window_size"] < 0 else attributes[f"{side}_window_size"]
        for side in ("left", "right")
    )

    def rule(offset: int) -> NDArray[np.bool_]:
        seen = window(n_q, n_k, left=left, right=right, offset=offset)
        return seen & causal(n_q, n_k, offset=offset) if attributes["is_causal"] else seen

    if "past_key" in inputs:
        return rule(inputs["past_key"].shape[-2])
    if "nonpad_kv_seqlen" in inputs:
        return np.stack([rule(int(length) - n_q) for length in inputs["nonpad_kv_seqlen"]])[:, None]
    return rule(0)


def _mask_and_bias(inputs: Arrays, n_k: int) -> tuple[NDArray[np.bool_] | None, NDArray[np.float64] | None]:
    """A boolean mask as it is; a float mask as numbers to add, and −∞ in it as a mask.

    With nonpad_kv_seqlen a mask may leave out keys at the end, which are then closed.
    """
    mask = inputs.get("attn_mask")
    if mask is None:
        return None, None
    short = n_k - mask.shape[-1]
    if short > 0 and "nonpad_kv_seqlen" in inputs:
        closed = False if mask.dtype == np.bool_ else -np.inf
        mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], constant_values=closed)
    if mask.dtype.kind != "f":
        return mask, None
    return mask != -np.inf, np.where(mask == -np.inf, 0.0, mask.astype(np.float64))


def _joined(rule: NDArray[np.bool_], given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Both rules at once; a given mask of another size stays as it is, for the core to refuse."""
    try:
        return rule & given
    except ValueError:
        return given


def _which(attributes: Attributes) -> dict[str, Any]:
    """Which targets a loss counts, and how they are put together."""
    return {name: attributes[name] for name in ("ignore_index", "reduction")}


def _changed_scores(change: Mapping[str, Any] | None, n_q: int, n_k: int) -> dict[str, Any]:
    """FlexAttention's score_mod as the core's arguments."""
    if change is None:
        return {}
    kind = change["kind"]
    if kind == "softcap":
        return {"softcap": change["value"]}
    if kind == "add":
        return {"bias": np.full((n_q, n_k), change["value"])}
    if kind.startswith("causal"):
        return {"mask": causal(n_q, n_k)}
    if kind.startswith("relative"):
        distance = np.arange(n_q)[:, None] - np.arange(n_k)[None, :]
        return {"bias": distance * change.get("value", 1.0)}
    raise NotImplementedError(f"score_mod {kind}")


def _factor(change: Mapping[str, Any] | None) -> float:
    """FlexAttention's prob_mod: the number that every weight is multiplied by."""
    if change is None:
        return 1.0
    kind = change["kind"]
    if kind in ("scale", "mul", "multiply"):
        return float(change["value"])
    raise NotImplementedError(f"prob_mod {kind}")


def _queries(ids: NDArray[Any], n_q: int, offset: int) -> NDArray[Any]:
    """The segments of the queries: n_q positions from the offset on."""
    return ids[..., offset : offset + n_q]


def _axis(x: NDArray[Any], attributes: Attributes) -> int:
    """The first axis that a normalisation goes over, counted from the front."""
    axis = int(attributes.get("axis", -1))
    return axis + x.ndim if axis < 0 else axis


def _rows(x: NDArray[Any], attributes: Attributes) -> dict[str, Any]:
    """x with the axes of a normalisation laid out in rows, and its ε."""
    axis = _axis(x, attributes)
    rows = _wide(x).reshape(int(np.prod(x.shape[:axis])), -1)
    return {"x": rows, "epsilon": attributes.get("epsilon", 1e-5)}


def _over_row(a: NDArray[Any], x: NDArray[Any], attributes: Attributes) -> NDArray[np.float64]:
    """A gain or shift laid out in one row as x is."""
    return np.broadcast_to(_wide(a), x.shape[_axis(x, attributes) :]).reshape(1, -1)


def _unpacked(a: NDArray[Any], heads: int) -> NDArray[Any]:
    """(B, n, heads · d) -> (B, heads, n, d): heads are cut from the features, not from the positions."""
    batch, n, features = a.shape
    return a.reshape(batch, n, heads, features // heads).swapaxes(1, 2)


def _wide(a: NDArray[Any]) -> NDArray[np.float64]:
    return a.astype(np.float64)


def _like(a: NDArray[Any], model: NDArray[Any]) -> NDArray[Any]:
    """a in the type of the model, float64 for whole numbers; a number too large for it becomes ∞."""
    with np.errstate(over="ignore"):
        return a.astype(model.dtype if model.dtype.kind == "f" else np.float64)
