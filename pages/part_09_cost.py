"""Part 9: operations and bytes, counted line by line, and what an accelerator makes of them."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from attention_core.accelerators import ACCELERATORS, GIGA, Accelerator
from attention_core.cost import (
    PER_CELL,
    TITLES,
    bound,
    intensity,
    prefill,
    seconds,
    square_rules,
    table_bytes,
    total,
)
from attention_core.numbers import show
from attention_core.sheet import Cost
from attention_core.written import visible
from attention_ui import amounts, costing, listing, live, panels, prose, roofline, teaching, workbench
from attention_ui.costing import (
    BANDWIDTH,
    BATCH,
    CHIP,
    GUESS,
    HEADS,
    HERE,
    KV,
    LARGER,
    PEAK,
    PHASES,
    PROJECTIONS,
    SINGLY,
    TYPE,
    WEIGHTLESS,
    WORK,
    D,
    N,
)
from attention_ui.desk import Desk
from attention_ui.figures import CONFIG
from attention_ui.frame import lesson
from attention_ui.roofline import Phase
from attention_ui.scene import Scene, once

ALSO = teaching.also("p9.also")
SYMBOLS = {"all": "circle", "one": "diamond"}
SHORT = {"all": "all", "one": "one new"}


@once
def scene_of(desk: Desk) -> Scene:
    return costing.scene_of(desk.bench)


def chip_of(desk: Desk) -> Accelerator:
    """The accelerator that is chosen, called the reader's where it is."""
    chip = costing.accelerator_of(desk.bench)
    return replace(chip, title="Your accelerator") if CHIP.of(desk.bench) == "own" else chip


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, costing.layout_of(desk.bench, now))


def counted(desk: Desk) -> None:
    """Every line of the sheet on the board that takes an operation, from the shapes on screen."""
    now, bench = scene_of(desk), desk.bench
    st.header("Counted line by line", anchor=False)
    costs = [cost for cost in costing.counted_here(bench, now) if cost.operations]
    sequences = costing.batch(bench)
    rows = [
        [
            now.sheet.titles[cost.name],
            costing.as_product(now, now.sheet.stage(cost.name), sequences, cost.operations),
            *_numbers(cost),
        ]
        for cost in costs
    ]
    rows.append(["Together", "", *_numbers(total(costs))])
    caption = f"An estimate from the shapes on the board, {TYPE.options[TYPE.of(bench)]} a number."
    heads = [
        "line",
        "operations as a product",
        "operations",
        "bytes read",
        "bytes written",
        "operations per byte",
    ]
    listing.draw("The sheet counted", listing.table(caption, heads, rows))
    left_out = len(now.sheet.stages) - len(costs)
    prose.paragraph(
        "A multiply-add is 2 operations, and softmax takes 5 for every cell. Each line is counted as if it "
        "read its inputs from memory and wrote its result back. "
        f"{left_out} lines that only take, turn or keep numbers are left out; so are positions and norms. "
        "A mask saves nothing: the whole table is worked out.",
        kind="quiet",
    )
    if costing.width_here(bench) < bench.d_k:
        prose.paragraph(
            f"d_k is {bench.d_k}; two heads of {costing.width_here(bench)} columns fill the board.",
            kind="quiet",
        )


def _numbers(cost: Cost) -> list[str]:
    return [
        amounts.whole(cost.operations),
        amounts.whole(cost.bytes_read),
        amounts.whole(cost.bytes_written),
        visible(intensity(cost), show),
    ]


def full_size(desk: Desk) -> None:
    """A layer of full size: its lines, its roofline, and what came of the prediction."""
    bench, chip, numbers = desk.bench, chip_of(desk), TYPE.of(desk.bench)
    shown = ["all", *["one"] * teaching.is_open(desk, GUESS)]
    phases = [Phase(PHASES[word], SHORT[word], costing.full(bench, word), SYMBOLS[word]) for word in shown]
    teaching.verdict(desk, GUESS, *_because(desk))
    with st.container(width=760, key="roofline"):
        st.plotly_chart(
            roofline.figure(chip, numbers, phases, theme=panels._theme()), key="roof", theme=None,
            alt=roofline.alt_text(chip, numbers, phases), config=CONFIG,
        )  # fmt: skip
        prose.paragraph(
            "Filled: all lines, one after the other. Open: each line by itself, on the roof of the chosen "
            f"accelerator. Left of {show(chip.ridge(numbers))} operations per byte memory sets the time, "
            "right of it arithmetic. The thin roofs are those of the other accelerators.",
            kind="quiet",
        )
        with st.expander("The roofline as a table"):
            caption = f"{chip.title}, an estimate from shapes and data sheet."
            listing.draw("Roofline, table", listing.table(caption, *roofline.table(chip, numbers, phases)))
    for phase in phases:
        _lines(phase, chip, numbers, tokens=costing.tokens(bench))


def _lines(phase: Phase, chip: Accelerator, numbers: str, *, tokens: int) -> None:
    rows = [
        [
            TITLES[cost.name],
            amounts.whole(cost.operations),
            amounts.size(cost.bytes),
            visible(intensity(cost), show),
            amounts.duration(seconds(cost, chip, numbers)),
            bound(cost, chip, numbers),
        ]
        for cost in phase.costs
    ]
    every = total(phase.costs)
    time = amounts.duration(seconds(phase.costs, chip, numbers))
    rows.append(
        [
            "Together",
            amounts.whole(every.operations),
            amounts.size(every.bytes),
            visible(intensity(every), show),
            time,
            "",
        ]
    )
    kept = "" if phase.name == PHASES["all"] else f", after {tokens - 1:,} that are in the cache"
    caption = f"{phase.name}{kept}: an estimate for one layer. {chip.title}."
    heads = ["line", "operations", "bytes", "operations per byte", "least time", "set by"]
    listing.draw(phase.name, listing.table(caption, heads, rows))


def _because(desk: Desk) -> tuple[str, str]:
    bench, chip, numbers = desk.bench, chip_of(desk), TYPE.of(desk.bench)
    both = [costing.full(bench, word) for word in ("all", "one")]
    operations = [total(costs).operations for costs in both]
    times = [seconds(costs, chip, numbers) for costs in both]
    shares = [part / whole for whole, part in (operations, times)]
    right = "more" if shares[1] > LARGER * shares[0] else "same"
    per_byte = [show(intensity(total(costs))) for costs in both]
    return right, (
        f"One new token takes {amounts.share(shares[0])} of the operations and {amounts.share(shares[1])} of "
        f"the time: {amounts.duration(times[1])} against {amounts.duration(times[0])}. It makes "
        f"{per_byte[1]} operations per byte, all tokens {per_byte[0]}. {chip.title} needs "
        f"{show(chip.ridge(numbers))} to be busy."
    )


def square(desk: Desk) -> None:
    """From how many tokens on the n × n table takes more than the projections, and what it takes to hold."""
    bench, layer = desk.bench, costing.layer_of(desk.bench)
    st.header("Where n² begins to rule", anchor=False)
    from_operations, from_bytes = square_rules(layer, "operations"), square_rules(layer, "bytes")
    heads, d = layer.n_heads, layer.d_head
    prose.paragraph(
        f"The projections grow with n, the table of scores with n². Here the lines that hold the table take "
        f"more operations than the four projections from n = {from_operations:,} on, and more bytes from "
        f"n = {from_bytes:,} on. For each of {heads} heads a cell takes 2 × {d} operations in the scores, "
        f"{PER_CELL} in scaling, mask and softmax, and 2 × {d} with V."
    )
    marks = {from_operations: "operations", from_bytes: "bytes"}
    rows = []
    for n in sorted({128, 2048, 32768, costing.tokens(bench), *marks}):
        beside, inside = costing.parts(layer, n)
        rows.append(
            [
                f"{n:,}" + (f" ({marks[n]} pass here)" if n in marks else ""),
                amounts.whole(beside.operations), amounts.whole(inside.operations),
                amounts.size(beside.bytes), amounts.size(inside.bytes),
            ]
        )  # fmt: skip
    heading = [
        "tokens n",
        "operations, projections",
        "operations, n × n",
        "bytes, projections",
        "bytes, n × n",
    ]
    listing.draw("Where n² rules", listing.table("An estimate for all tokens at once.", heading, rows))


def memory(desk: Desk) -> None:
    bench, layer, chip = desk.bench, costing.layer_of(desk.bench), chip_of(desk)
    n = costing.tokens(bench)
    st.header("Memory of the score matrix", anchor=False)
    held = table_bytes(layer, n)
    size = f"{layer.batch} × {layer.n_heads} × {n:,} × {n:,} × {layer.number_bytes}"
    fills = (
        f"{chip.title} has {amounts.size(GIGA * chip.memory)}: the table alone would fill it from n = "
        f"{costing.most_tokens(layer, chip) + 1:,} on. "
    )
    if CHIP.of(bench) == "own":
        fills = ""
    prose.paragraph(
        f"One table of scores for every head and every sequence: batch × heads × n × n × bytes = {size} = "
        f"{amounts.size(held)}, by estimate. {fills}Twice the tokens make four times the table. "
        "FlashAttention never writes it down."
    )


def check(desk: Desk) -> None:
    teaching.check(_claims(desk))
    if SINGLY.of(desk.bench):
        prose.paragraph(
            "A multiply-add is a multiplication and an addition. Data sheets count both, so a count of one "
            "would promise half the time that the peak rate allows for."
        )
    if WEIGHTLESS.of(desk.bench):
        prose.paragraph(
            "A new token is one row, but its products need every number of the weights, and a cache of keys "
            "and values does not hold those. Left out, they make a step look faster than it can be."
        )


def _claims(desk: Desk) -> list[tuple[str, bool]]:
    bench, now = desk.bench, scene_of(desk)
    here = {cost.name: cost for cost in costing.counted_here(bench, now)}
    q, k_t = now.values["q_1"], now.values["k_t_1"]
    pairs, width, sequences = q.shape[0] * k_t.shape[1], q.shape[1], costing.batch(bench)
    by_hand = sum(width + width for _ in range(pairs)) * sequences
    layer, n = costing.layer_here(bench), costing.tokens_here(bench)
    formulas = total(costing.decode(layer, n) if costing.is_step(bench) else prefill(layer, n)).operations
    together = total(here.values()).operations
    step = {cost.name: cost for cost in costing.full(bench, "one")}
    learned = sum(costing.weights_read(costing.layer_of(bench)).values())
    read = sum(step[name].bytes_read for name in PROJECTIONS)
    first = square_rules(costing.layer_of(bench))
    beside, inside = costing.parts(costing.layer_of(bench), first)
    return [
        (
            f"{pairs} dot products of width {width} take {width} multiplications and {width} additions each"
            f"{f', for {sequences} sequences' * (sequences > 1)}: {amounts.whole(by_hand)} operations. The "
            f"line of the scores says {amounts.whole(here['scores_1'].operations)}.",
            by_hand == here["scores_1"].operations,
        ),
        (
            "The formulas that count the layer of full size give the sheet on the board "
            f"{amounts.whole(formulas)} operations; its lines add up to {amounts.whole(together)}.",
            formulas == together,
        ),
        (
            f"One new token reads W_Q, W_K, W_V and W_O, {amounts.size(learned)}: its projections read "
            f"{amounts.size(read)}.",
            read >= learned,
        ),
        (
            f"At n = {first:,} the lines with the n × n table take {inside.operations:,} operations, more "
            f"than the {beside.operations:,} of the projections; with one token less they do not.",
            inside.operations > beside.operations and not _rules(desk, first - 1),
        ),
    ]


def _rules(desk: Desk, n: int) -> bool:
    if n < 1:
        return False
    beside, inside = costing.parts(costing.layer_of(desk.bench), n)
    return inside.operations > beside.operations


def data_sheets() -> None:
    with st.expander("The accelerators, as their data sheets state them"):
        rows = [
            [
                each.title, show(each.half), show(each.single), show(each.bandwidth), show(each.memory),
                show(each.ridge("fp16")), f"{each.source}, {each.date}",
            ]
            for each in ACCELERATORS.values()
        ]  # fmt: skip
        heads = [
            "accelerator", "FP16, 10¹²/s", "FP32, 10¹²/s", "bandwidth, 10⁹ B/s", "memory, 10⁹ B",
            "ridge at FP16, operations per byte", "source",
        ]  # fmt: skip
        caption = "Peak rates without sparsity; no calculation reaches them."
        listing.draw("Accelerators", listing.table(caption, heads, rows))


@lesson(
    __file__,
    sources=[
        (
            "Williams, Waterman and Patterson 2009, Roofline: An Insightful Visual Performance Model for "
            "Multicore Architectures",
            "https://doi.org/10.1145/1498765.1498785",
        ),
        ("Pope et al. 2022, Efficiently Scaling Transformer Inference", "https://arxiv.org/abs/2211.05102"),
        (
            "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
            "https://arxiv.org/abs/2205.14135",
        ),
        (
            "NVIDIA A100 Tensor Core GPU, data sheet",
            "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
            "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
        ),
        ("NVIDIA H100 Tensor Core GPU", "https://www.nvidia.com/en-us/data-center/h100/"),
        (
            "AMD Instinct MI300X Accelerator",
            "https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html",
        ),
    ],
)
def part_09(desk: Desk) -> None:
    st.markdown(
        "A line of the calculation takes time for its arithmetic and for the bytes that it moves. Operations "
        "over bytes is its intensity: a small one leaves an accelerator waiting for memory. Below, the sheet "
        "on the board is counted stage by stage, and then a layer of full size by the same rules. All "
        "numbers here are estimates from shapes and data sheets; nothing is timed."
    )
    with st.container(horizontal=True, key="choices"):
        for control in (WORK, HERE, TYPE, BATCH):
            control.draw(desk)
    with st.container(horizontal=True, key="mistakes"):
        SINGLY.draw(desk)
        WEIGHTLESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    counted(desk)
    st.header("A layer of full size", anchor=False)
    prose.paragraph(
        "The sizes at first are those of one layer of Llama 2 7B. Numbers and batch are those chosen above."
    )
    with st.container(horizontal=True, key="layer"):
        for choice in (N, D, HEADS, KV):
            choice.draw(desk)
    CHIP.draw(desk)
    if CHIP.of(desk.bench) == "own":
        with st.container(horizontal=True, key="own"):
            PEAK.draw(desk)
            BANDWIDTH.draw(desk)
    data_sheets()
    GUESS.draw(desk)
    full_size(desk)
    square(desk)
    memory(desk)
    check(desk)
    teaching.show_also(desk, ALSO, scene_of)
