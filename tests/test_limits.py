"""Beyond every limit: in links, in what the board tells, in controls moved by hand, in files.

None of these tests goes through a control on a page: whoever writes a message by hand passes by those.
What only a server can hold is in test_gate.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pytest

from attention_core import limits
from attention_core.accelerators import ACCELERATORS
from attention_core.cost import Layer
from attention_core.counted import overtakes
from attention_core.examples import EXAMPLES, matrix
from attention_core.language_model import Shape
from attention_core.learning import Plan, Trainer
from attention_core.masks import MaskSpec, drawn
from attention_core.model_cost import timeline
from attention_core.models import MODELS
from attention_core.numbers import parse_block, parse_number
from attention_core.paging import paged_cache
from attention_core.sharding import ranges
from attention_core.uploads import read_npz
from attention_ui import bits, board, controls
from attention_ui.bench import (
    BOUNDS,
    EDITABLE,
    FIRST,
    SIDES,
    Bench,
    numbers,
    opened,
    with_edit,
    with_numbers,
    with_sizes,
    with_way,
)
from attention_ui.choices import with_choice
from attention_ui.desk import Desk
from attention_ui.links import from_query, to_query
from attention_ui.tokens import join_tokens, split_tokens

Test = Callable[[], None]
BEYOND: dict[str, Test] = {}
OF_THE_SERVER = {
    "LARGEST_MESSAGE", "DEEPEST_MESSAGE", "LONGEST_WHOLE", "MOST_READERS", "MOST_SILENT", "SHARE", "ALONE",
    "AT_A_STRETCH", "LONGEST_WAIT", "LONGEST_RUN", "EVERY", "MOST_WAITING",
}  # fmt: skip


def beyond(name: str) -> Callable[[Test], Test]:
    """Take a function up as the test of a limit."""

    def take(test: Test) -> Test:
        BEYOND[name] = test
        return test

    return take


def desk() -> Desk:
    return Desk(with_way(opened(FIRST), "qkv")[0])


def sent(at: Desk, *operations: list) -> Desk:
    """The desk after a message from the board that was written by hand."""
    told = {"session": at.session, "ops": [[at.ack + k, *op] for k, op in enumerate(operations, start=1)]}
    at.receive(board.operations(told, at.session, at.ack))
    return at


def moved(key: str, value: object, at: Desk | None = None) -> Desk:
    """The desk after a control was moved to a value that it does not offer."""
    at = at or desk()
    at.shown[key] = None
    controls._move(at, {key: value})
    return at


def refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as reason:
        call()
    assert all(word in str(reason.value) for word in words) and len(str(reason.value)) < 300


@beyond("LARGEST_NUMBER")
def numbers_up_to_it() -> None:
    at = sent(desk(), ["edit", "q", 0, 0, "1e60"], ["edit", "q", 0, 1, "1e61"])
    assert numbers(at.bench, "q")[0, 0] == 1e60 and "larger than" in at.messages[0].text
    query = dict(parse_qsl(to_query(with_edit(opened(FIRST), "x", 0, 0, 1e61))))
    assert from_query(query)[0] == opened(FIRST)
    assert from_query({"scale": "1e61"})[0] == opened(FIRST)
    huge = replace(opened(FIRST), edits={"x": {(0, 0): 1e60}, "w_q": {(0, 0): 1e60}})
    assert with_way(huge, "qkv")[0] == huge and "too large" in with_way(huge, "qkv")[1]


@beyond("LONGEST_NUMBER")
def numbers_as_long_as_it() -> None:
    assert parse_number("0" * limits.LONGEST_NUMBER) == 0
    refused(lambda: parse_number("0" * (limits.LONGEST_NUMBER + 1)), "longer than")
    assert "longer than" in sent(desk(), ["edit", "q", 0, 0, "1" * 900_000]).messages[0].text


@beyond("LARGEST_SIDE")
def sides_up_to_it() -> None:
    for name in SIDES:
        for size in (0, -1, limits.LARGEST_SIDE + 1, 10**9):
            refused(lambda name=name, size=size: with_sizes(opened(FIRST), **{name: size}), name)
        assert moved(name, 10**9).bench == desk().bench
    for name in ("n", "nq", "nk", "dm", "dk", "dv"):
        bench, said = from_query({name: str(limits.LARGEST_SIDE + 1)})
        assert bench == opened(FIRST) and f"{name}=" in said
    at = sent(desk(), *([kind, "weights", 16, 0] for kind in ("select", "toggle")), ["select", "q", 0, 10**9])
    assert at.bench == desk().bench
    for kind in ("edit", "paste"):
        assert sent(desk(), [kind, "q", 10**9, 0, "1"]).bench == desk().bench
    assert limits.LARGEST_SIDE <= bits.EDGE


@beyond("LARGEST_MAP")
def maps_up_to_it() -> None:
    beyond_it = limits.LARGEST_MAP + 1
    refused(lambda: matrix(EXAMPLES[FIRST], "x", beyond_it, 1), str(limits.LARGEST_MAP))
    refused(lambda: replace(opened(FIRST), large=beyond_it), "large")
    assert from_query({"large": str(beyond_it)})[0] == opened(FIRST)
    at = moved("large", 10**9, Desk(replace(opened(FIRST), panel="large")))
    assert at.bench.large == opened(FIRST).large and "Large has to be" in at.notice


@beyond("LARGEST_DRAWING")
def drawings_up_to_it() -> None:
    drawn(np.ones((limits.LARGEST_DRAWING,) * 2, dtype=bool))
    refused(lambda: drawn(np.ones((limits.LARGEST_DRAWING + 1, 1), dtype=bool)), "64 × 64")
    for size in ("65x1", "1x65", "9999x9999"):
        assert from_query({"mask": f"custom-{size}-AA"})[0] == opened(FIRST)


@beyond("LARGEST_BLOCK")
def blocks_up_to_it() -> None:
    refused(lambda: parse_block("1\n" * (limits.LARGEST_BLOCK + 1)), "at most 64 × 64")
    refused(lambda: parse_block("1\t" * (limits.LARGEST_BLOCK + 1)), "at most 64 × 64")
    at = sent(desk(), ["paste", "q", 0, 0, "1\n" * 65])
    assert at.bench == desk().bench and "at most 64 × 64" in at.messages[0].text


@beyond("LONGEST_BLOCK")
def blocks_as_long_as_it() -> None:
    at = sent(desk(), ["paste", "q", 0, 0, " 1" * limits.LONGEST_BLOCK])
    assert at.bench == desk().bench and "100,000 characters" in at.messages[0].text


@beyond("MOST_TOKENS")
def as_many_tokens() -> None:
    line = " ".join("a" * (limits.MOST_TOKENS + 1))
    refused(lambda: split_tokens(line), "at most 16")
    refused(lambda: replace(opened(FIRST), tokens=("a",) * 17), "16 tokens")
    assert from_query({"tokens": line})[0] == opened(FIRST)
    at = moved("tokens", line)
    assert at.bench == desk().bench and "at most 16" in at.refused["tokens"][0]


@beyond("LONGEST_TOKEN")
def tokens_as_long() -> None:
    refused(lambda: split_tokens("a" * (limits.LONGEST_TOKEN + 1)), "at most 40")
    refused(lambda: replace(opened(FIRST), tokens=("a" * 41,)), "40 letters")
    assert from_query({"tokens": "a" * 41})[0] == opened(FIRST)


@beyond("LONGEST_LINE")
def lines_as_long() -> None:
    longest = ("\U000e0000" * limits.LONGEST_TOKEN,) * limits.MOST_TOKENS  # every letter is written \u{e0000}
    assert split_tokens(join_tokens(longest)) == longest
    refused(lambda: split_tokens("a" * (limits.LONGEST_LINE + 1)), "7,000")
    assert "7,000" in moved("tokens", " " * 7_000 + "a").refused["tokens"][0]


@beyond("LARGEST_SEED")
def seeds_up_to_it() -> None:
    last = replace(opened(FIRST), seed=limits.LARGEST_SEED)
    assert sent(Desk(last), ["new"]).bench == last
    refused(lambda: replace(last, seed=limits.LARGEST_SEED + 1), "seed")
    assert from_query({"seed": "10000"})[0] == opened(FIRST)


@beyond("LONGEST_MASK")
def masks_as_long() -> None:
    refused(lambda: MaskSpec.from_text("c" * (limits.LONGEST_MASK + 1)), "2,000 characters")
    assert from_query({"mask": "c" * 1_000_000})[0] == opened(FIRST)


@beyond("LONGEST_CODE")
def codes_as_long() -> None:
    refused(lambda: bits.unpack("1" * (limits.LONGEST_CODE + 1), EDITABLE), "too long")
    full = with_sizes(opened(FIRST), n_k=16, d_model=16, d_k=16, d_v=16)
    rng = np.random.default_rng(0)
    for name in EDITABLE:
        full = with_numbers(full, name, rng.normal(size=(16, 16)))
    code = dict(parse_qsl(to_query(full)))["m"]
    assert len(code) <= limits.LONGEST_CODE and from_query({"m": code})[1] == ""


@beyond("LONGEST_CHOICE")
def choices_as_long() -> None:
    refused(lambda: with_choice(opened(FIRST), "p5.heads", "a" * 41), "40 letters")
    assert from_query({"p5.heads": "a" * 41})[0] == opened(FIRST)
    assert "40 letters" in moved("choice p5.heads", "a" * 41).notice


@beyond("MOST_CHOICES")
def as_many_choices() -> None:
    names = [f"p{k % 10}.{chr(97 + k // 10)}" for k in range(limits.MOST_CHOICES + 1)]
    full = replace(opened(FIRST), choices=dict.fromkeys(names[:-1], "1"))
    refused(lambda: with_choice(full, names[-1], "1"), "100 choices")
    bench, said = from_query(dict.fromkeys(names, "1"))
    assert bench == full and names[-1] in said
    assert moved(f"choice {names[-1]}", "1", Desk(full)).bench == full


def archive(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@beyond("LARGEST_FILE")
def files_up_to_it() -> None:
    refused(lambda: read_npz("a.npz", bytes(limits.LARGEST_FILE + 1), ["q"]), "not opened")


@beyond("LARGEST_MEMBER")
def members_up_to_it() -> None:
    refused(lambda: read_npz("a.npz", archive(q=np.zeros(limits.LARGEST_MEMBER // 8)), ["q"]), "unpacks to")


@beyond("MOST_MEMBERS")
def as_many_members() -> None:
    many = archive(**{f"q{k}": np.zeros(1) for k in range(limits.MOST_MEMBERS + 1)})
    refused(lambda: read_npz("a.npz", many, ["q0"]), "holds 33 files")


@beyond("LONGEST_HEADER")
def headers_as_long() -> None:
    long = archive(q=np.zeros(1, dtype=[(f"a rather long name {k}", "f8") for k in range(100)]))
    refused(lambda: read_npz("a.npz", long, ["q"]), "not an array")


@beyond("MOST_DEVICES")
def as_many_devices() -> None:
    refused(lambda: ranges(1000, limits.MOST_DEVICES + 1), "from 1 to 64")


@beyond("LARGEST_POOL")
def pools_up_to_it() -> None:
    for sizes in pairwise([1, limits.LARGEST_POOL + 1, 1]):
        refused(lambda sizes=sizes: paged_cache(*sizes, 1, 1), "from 1 to 4096")


@beyond("LARGEST_COUNTED")
def counted_up_to_it() -> None:
    refused(lambda: Layer(limits.LARGEST_COUNTED + 1, 1, 1, 1), "d_model")


@beyond("MOST_COUNTED")
def counting_ends() -> None:
    assert overtakes("relu", 16, 10**15) <= 2 * limits.MOST_COUNTED


@beyond("MOST_NEW")
def as_many_new_tokens() -> None:
    model, accelerator = next(iter(MODELS.values())), next(iter(ACCELERATORS.values()))
    refused(lambda: timeline(model, 1, limits.MOST_NEW + 1, accelerator), "at most 4096")


@beyond("LARGEST_MODEL")
def models_up_to_it() -> None:
    for name, most in limits.LARGEST_MODEL.items():
        refused(lambda name=name, most=most: Shape(**{name: 2 * most}), name)


@beyond("LONGEST_TEXT")
def texts_as_long() -> None:
    refused(lambda: Trainer("ab" * limits.LONGEST_TEXT), "8000 characters")


@beyond("LARGEST_VOCABULARY")
def vocabularies_up_to_it() -> None:
    refused(lambda: Trainer("".join(map(chr, range(1000, 1257)))), "257 different")


@beyond("LARGEST_BATCH")
def batches_up_to_it() -> None:
    refused(lambda: Plan(batch=limits.LARGEST_BATCH + 1), "batch")


@beyond("MOST_AT_ONCE")
def steps_at_once() -> None:
    refused(lambda: Trainer("abab").step(limits.MOST_AT_ONCE + 1), "from 1 to 200")


@beyond("MOST_STEPS")
def steps_altogether() -> None:
    began = Trainer("abab")
    late = Trainer("abab", state=began.state | {"losses": np.ones(limits.MOST_STEPS - 1)})
    late.step(5)
    assert late.steps == limits.MOST_STEPS and late.step(5) == ()


@beyond("MOST_WRITTEN")
def tokens_written() -> None:
    refused(lambda: Trainer("abab").written("a", limits.MOST_WRITTEN + 1), "from 1 to 400")


@beyond("MOST_UNDO")
def as_many_changes() -> None:
    at = desk()
    for k in range(limits.MOST_UNDO + 50):
        sent(at, ["edit", "q", 0, 0, str(k + 10)])
    assert len(at.past) == limits.MOST_UNDO


@beyond("MOST_OPERATIONS")
def as_many_operations() -> None:
    at = desk()
    told = {"session": at.session, "ops": [[k, "edit", "q", 0, 0, str(k)] for k in range(1, 1201)]}
    for taken in (500, 1000, 1200, 1200):  # told again until all are acknowledged, as board.js does
        at.receive(board.operations(told, at.session, at.ack))
        assert at.ack == taken and numbers(at.bench, "q")[0, 0] == taken


@pytest.mark.parametrize("name", BEYOND)
def test_beyond_the_limit_is_refused_and_what_was_there_stays(name: str) -> None:
    BEYOND[name]()


def test_every_limit_has_its_test() -> None:
    assert set(BEYOND) | OF_THE_SERVER == {name for name in vars(limits) if name.isupper()}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_bench_beyond_its_bounds_cannot_be_made(name: str) -> None:
    low, high = BOUNDS[name]
    for value in (low, high):
        assert getattr(Bench(**{name: value}), name) == value
    for value in (low - 1, high + 1, 2.5, None, "4"):
        refused(lambda value=value: Bench(**{name: value}), name)


def test_a_link_of_a_million_letters_is_told_in_one_short_sentence() -> None:
    query = dict.fromkeys(
        ["m", "m2", "tokens", "mask", "n", "seed", "cell", "scale", "example"], "7" * 1_000_000
    )
    bench, said = from_query(query)
    assert bench == opened(FIRST) and len(said) < 1_200 and len(urlencode({"said": said})) < 4_000
