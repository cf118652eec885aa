"""Part 15: a kit to build attention with, one's own numbers checked, twelve bugs to find, a stopwatch."""

from __future__ import annotations

import streamlit as st

from attention_core import kit
from attention_ui import bugs, live, panels, teaching, timed, verifying, workbench
from attention_ui.bugs import ADDED, BUG, HEAD, ROUND
from attention_ui.choices import Choice
from attention_ui.desk import Desk
from attention_ui.frame import lesson
from attention_ui.scene import Scene
from attention_ui.timed import WIDTH  # noqa: F401  # one of the page's questions
from attention_ui.verifying import CLOSE, GUESS, SUMS

SHOW = Choice(
    "p15.show", "What to do",
    {"verify": "Build and verify", "find": "Find the bug", "profile": "Profile"}, "verify",
)  # fmt: skip
FILES = "p15 files"  # the uploader's key: files are no part of the link
ALSO = teaching.also("p15.also")


def finds(desk: Desk) -> bool:
    return SHOW.of(desk.bench) == "find"


def scene_of(desk: Desk) -> Scene:
    return bugs.scene_of(desk) if finds(desk) else verifying.scene_of(desk)


def board(desk: Desk) -> None:
    now = scene_of(desk)
    workbench.draw(desk, now, bugs.layout_of(desk, now) if finds(desk) else verifying.layout_of(now))


def verify(desk: Desk) -> None:
    st.markdown(
        "Write attention yourself, and let numbers decide whether it is right. Compare every stage, not the "
        "output alone: the first stage that differs is where the mistake is. And test the test: it is worth "
        "as much as the wrong programs that it refuses."
    )
    with st.container(horizontal=True, key="mistakes"):
        SUMS.draw(desk)
    GUESS.draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", verifying.answer)
    build()
    own_numbers(desk)


def build() -> None:
    """The kit to take home."""
    st.header("Build: a stub and a checker to take home", anchor=False)
    st.markdown(
        "A file of functions without a body, and a program that runs yours on 147 cases: inputs and results "
        "of ONNX’s own tests, of PyTorch and transformers, and of public bug reports. It needs Python and "
        "NumPy, and neither this page nor a network. ONNX’s cases come under the Apache License 2.0, which "
        "is in the archive."
    )
    st.download_button(
        "Download the kit (.zip)", kit.archive, f"{kit.FOLDER}.zip", "application/zip", key="p15 kit",
        on_click="ignore",
    )  # fmt: skip


def own_numbers(desk: Desk) -> None:
    """The numbers on screen to take away, and a learner's files to hold against them."""
    st.header("Verify: your numbers against those on the board", anchor=False)
    st.markdown(
        "Take the given numbers, work the stages out in your own program, and bring them back: one .npz "
        "archive with the arrays `scores`, `scaled`, `masked`, `weights` and `output`, or a .csv file for "
        "each, called after it. Some of them are enough. Files are read as numbers, never run, and not kept."
    )
    live.then("numbers", downloads)
    CLOSE.draw(desk)
    st.file_uploader(
        "Your stages (.npz or .csv)", type=["npz", "csv"], accept_multiple_files=True, key=FILES,
        max_upload_size=1,
    )  # fmt: skip
    live.then("report", report)


def downloads(desk: Desk) -> None:
    now = scene_of(desk)
    with st.container(horizontal=True):
        st.download_button(
            "The given numbers (.npz)", verifying.numbers_file(now), "given.npz", "application/zip",
            key="p15 numbers", on_click="ignore",
        )  # fmt: skip
        st.download_button(
            "A program that is right (.py)", verifying.program(now), "right.py", "text/x-python",
            key="p15 program", on_click="ignore", help="It holds the numbers, and saves every stage.",
        )  # fmt: skip


def report(desk: Desk) -> None:
    files = verifying.chosen(st.session_state.get(FILES))
    if files:
        verifying.report(desk, files)


def find(desk: Desk) -> None:
    st.markdown(
        "Twelve wrong programs, each with one mistake, ran on these numbers: four heads of queries share two "
        "heads of keys and values. One head is shown as it should be, and below its weights and output "
        "stand those that a program gave. Which mistake is it? Look at other heads, change numbers, read "
        "what still holds."
    )
    with st.container(horizontal=True, key="choices"):
        BUG.draw(desk)
        ROUND.draw(desk)
        HEAD.draw(desk)
        ADDED.draw(desk)
    bugs.guess_of(desk.bench).draw(desk)
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))
    live.words("answer", bugs.answer)


def profile(desk: Desk) -> None:
    st.markdown(
        "What attention takes can be counted from shapes, and it can be timed. The one is an estimate and "
        "says nothing of a machine; the other is true of one machine at one moment. Both stand here side by "
        "side, and are never made into one number."
    )
    timed.controls(desk)
    timed.results(desk)
    st.header("What is counted and timed", anchor=False)
    st.markdown("The steps from Q, K and V to the output; here on a few tokens, above on many.")
    live.first(board)
    live.words("arithmetic", lambda found: panels.arithmetic(scene_of(found)))


@lesson(
    __file__,
    sources=[
        (
            "Higham 2002, Accuracy and Stability of Numerical Algorithms",
            "https://doi.org/10.1137/1.9780898718027",
        ),
        ("ONNX, the operator Attention", "https://onnx.ai/onnx/operators/onnx__Attention.html"),
        (
            "PyTorch, scaled_dot_product_attention",
            "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        ),
        (
            "Dao et al. 2022, FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness",
            "https://arxiv.org/abs/2205.14135",
        ),
    ],
)
def part_15(desk: Desk) -> None:
    SHOW.draw(desk)
    {"verify": verify, "find": find, "profile": profile}[SHOW.of(desk.bench)](desk)
    teaching.show_also(desk, ALSO, scene_of)
