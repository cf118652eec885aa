"""Lesson 13, third view: three sequences in one pool of pages. What is asked, drawn and found."""

from __future__ import annotations

import numpy as np

from attention_core.numbers import show
from attention_core.operations import Array
from attention_core.page_moves import Pool, Row, pool_after
from attention_core.page_records import Waste
from attention_core.pool_sheet import pool_sheet
from attention_ui import amounts, listing, prose, teaching, workbench
from attention_ui.bench import Bench, token_at
from attention_ui.board import Unit
from attention_ui.choices import Amount, Choice, Switch
from attention_ui.desk import Desk
from attention_ui.filling import with_empty_rows
from attention_ui.grids import grid, names_in, unit_after
from attention_ui.moves import Moves
from attention_ui.scene import Scene, worked
from attention_ui.tokens import literal

N_PAGES = 10
LONGEST_PROMPT = 8
MOST_MOVES = 16
ACROSS = 4  # pages side by side
OTHER_WORDS = (
    *("rain", "fell", "again", "all", "night", "long", "over", "hills", "and", "fields", "until", "dawn"),
    *("came", "with", "clear", "skies", "at", "last"),
)

MOVES = Moves(
    "p13.moves", "Moves",
    {"a": "A goes on", "b": "B goes on", "c": "C goes on", "x": "C finishes"}, MOST_MOVES,
)  # fmt: skip
SIZE = Choice("p13.size", "Rows of a page", {"2": "2", "3": "3", "4": "4"}, "3")
READ = Choice("p13.read", "Sequence that is read", {"A": "A", "B": "B", "C": "C"}, "B")
LONGEST = Amount(
    "p13.longest", "Rows reserved for each without pages", 16, 64, 32, 4,
    help="One stretch of memory for every sequence has to be as long as it may ever become.",
)  # fmt: skip
OVER = Switch("p13.over", "Mistake: write into shared pages without a copy")
GUESS = teaching.prediction(
    "p13.guess_pages",
    "B goes on by one token. How many rows will be copied?",
    {"none": "no row", "some": "the rows of one page", "all": "all rows of B"},
)


def prompt_of(bench: Bench) -> int:
    return min(bench.n_k, LONGEST_PROMPT)


def pool_of(bench: Bench, moves: str | None = None) -> Pool:
    return pool_after(
        MOVES.of(bench) if moves is None else moves,
        prompt=prompt_of(bench), page_size=int(SIZE.of(bench)), n_pages=N_PAGES, copying=not OVER.of(bench),
    )  # fmt: skip


def sequence_of(bench: Bench) -> str:
    """The sequence that is read; A where C has finished."""
    name = READ.of(bench)
    return name if name in pool_of(bench).pages.tables else "A"


def scene_of(desk: Desk) -> Scene:
    bench = desk.bench
    pool, sequence = pool_of(bench), sequence_of(bench)
    n_own, n_others = _own(pool), pool.others
    read = pool.rows(sequence)
    return worked(
        bench, pool_sheet(pool, sequence), {"divisor": np.sqrt(bench.d_k)},
        sizes={"token": n_own, "token_a": n_own, "token_b": n_others, "query": 1, "key": len(read)},
        named={
            **dict.fromkeys(("token", "token_a"), _words(bench, [(0, i) for i in range(n_own)])),
            "token_b": _words(bench, [(1, i) for i in range(n_others)]),
            "query": _words(bench, read[-1:]), "key": _words(bench, read),
            **{f"slot_{page + 1}": _words(bench, pool.slots(page)) for page in pool.used},
        },
        starts={"query": len(read) - 1},
        compared=tuple(_alike(letter, pool) for letter in "kv"),
    )  # fmt: skip


def _alike(letter: str, pool: Pool) -> tuple[str, ...]:
    """All keys, or all values, in one colour range."""
    names = (letter, f"{letter}_a", f"{letter}_b", *(f"{letter}_{page + 1}" for page in pool.used))
    return (*names, "k_t" if letter == "k" else "output")


def _own(pool: Pool) -> int:
    """How many tokens of its own A has, those of the prompt among them."""
    return sum(which == 0 for which, _ in pool.written["A"])


def _words(bench: Bench, rows: tuple[Row, ...] | list[Row]) -> tuple[str, ...]:
    """The tokens of some rows: A's own follow the example, the others have words of their own."""
    return tuple(literal(token_at(bench, row) if which == 0 else OTHER_WORDS[row]) for which, row in rows)


def board(desk: Desk) -> None:
    now, pool = scene_of(desk), pool_of(desk.bench)
    numbers = [page + 1 for page in pool.used]
    lines = [numbers[at : at + ACROSS] for at in range(0, len(numbers), ACROSS)]
    layout = [
        *([Unit(f"{letter}_{number}") for number in line] for letter in "kv" for line in lines),
        [Unit("k"), Unit("v")],
        [Unit("q", left="x_t", top="w_q")],
        [Unit("scores", left="q", top="k_t", echo=["q"])],
        [unit_after(now, "scores", "weights"), unit_after(now, "weights", "output")],
        [Unit("k_a", left="x", top="w_k"), Unit("v_a", top="w_v")],
        [Unit("k_b", left="others", top="w_k", echo=["w_k"]), Unit("v_b", top="w_v", echo=["w_v"])],
    ]
    drawn = {name: grid(now, name, kept=desk.kept) for name in names_in(layout)}
    for page, number in zip(pool.used, numbers, strict=True):
        words = _words(desk.bench, pool.slots(page))
        slots = (*words, *("",) * (pool.pages.page_size - len(words)))
        for letter in "kv":
            name = f"{letter}_{number}"
            drawn[name] = with_empty_rows(drawn[name], slots)
    workbench.draw_grids(desk, drawn, layout)


def verdict(desk: Desk) -> None:
    """What B's next token would do to the pages, found by making that move."""
    bench = desk.bench
    pool, then = pool_of(bench), pool_of(bench, MOVES.of(bench) + "b")
    if then.refused:
        teaching.verdict(desk, GUESS, "", then.refused)
        return
    told = "; ".join(map(str, then.events))
    page, size = pool.pages.tables["B"][-1], pool.pages.page_size
    copies = any(event.kind == "copy" for event in then.events)
    if copies:
        why = "B’s last page has room, and another sequence holds it, too"
    elif pool.pages.lengths["B"] % size == 0:
        why = "B’s last page is full, and a full page is never written to again"
    elif OVER.of(bench) and len(pool.pages.holders[page]) > 1:
        why = "With the mistake switched on nothing is copied, although another sequence holds the page"
    else:
        why = "No other sequence holds B’s last page"
    teaching.verdict(desk, GUESS, "some" if copies else "none", f"{why}: {told}.")


def claims(now: Scene) -> list[tuple[str, bool]]:
    """What holds of pages, tried on the numbers on screen."""
    bench = now.bench
    pool, sequence = pool_of(bench), sequence_of(bench)
    waste, pages = pool.pages.waste(int(LONGEST.of(bench))), pool.pages
    rows = {name: pool.rows(name) for name in pages.tables}
    k, v = (_in_one_stretch(now, letter, pool.written[sequence]) for letter in "kv")
    places = {
        (table[token // pages.page_size], token % pages.page_size)
        for name, table in pages.tables.items()
        for token in range(pages.lengths[name])
    }
    many = len(pages.tables)
    return [
        (
            "Every sequence reads back, row by row, what it has written.",
            all(rows[name] == pool.written[name] for name in rows),
        ),
        (
            f"K and V of {sequence}, put together from its pages, are the same numbers as in one stretch.",
            np.array_equal(now.values["k"], k) and np.array_equal(now.values["v"], v),
        ),
        (
            f"Together the sequences have {show(waste.held)} rows; {show(waste.stored)} are stored, because "
            "some are shared.",
            waste.stored == len(places) <= waste.held,
        ),
        (
            f"No sequence leaves more than {show(pages.page_size - 1)} slots empty: in all "
            f"{show(waste.empty_paged)} are.",
            waste.empty_paged <= many * (pages.page_size - 1),
        ),
    ]


def _in_one_stretch(now: Scene, letter: str, rows: tuple[Row, ...]) -> Array:
    """K or V of a sequence without any pages: its rows, one after the other."""
    sources = (now.values[f"{letter}_a"], now.values[f"{letter}_b"])
    return np.array([sources[which][row] for which, row in rows])


def what_happened(desk: Desk) -> None:
    """The last move in words, the table of pages, and what is left empty with pages and without."""
    pool = pool_of(desk.bench)
    moves = MOVES.of(desk.bench)
    prose.paragraph("The last move" if moves else "How it began", kind="strong")
    if pool.refused:
        prose.notice(pool.refused)
    prose.bullets([f"{str(event)[:1].upper()}{str(event)[1:]}." for event in pool.events])
    _table_of_pages(pool)
    _table_of_waste(pool.pages.waste(int(LONGEST.of(desk.bench))), int(LONGEST.of(desk.bench)))


def _table_of_pages(pool: Pool) -> None:
    pages = pool.pages
    rows = [
        (name, show(pages.lengths[name]), " → ".join(str(page + 1) for page in table), _shared(pool, name))
        for name, table in pages.tables.items()
    ]
    free = [str(page + 1) for page in pages.free_pages]
    prose.paragraph(f"Free pages: {', '.join(free) or 'none'}.", kind="quiet")
    caption = "Block table: pages in order"
    listing.draw(
        "Block table", listing.table(caption, ("Sequence", "Tokens", "Pages", "Shared with others"), rows)
    )


def _shared(pool: Pool, name: str) -> str:
    table = pool.pages.tables[name]
    return ", ".join(str(page + 1) for page in table if len(pool.pages.holders[page]) > 1) or "none"


def _table_of_waste(waste: Waste, longest: int) -> None:
    rows = [
        _waste_row("In pages", waste.stored, waste.paged),
        _waste_row(f"{longest} rows reserved for each", waste.held, waste.contiguous),
    ]
    caption = "Rows, each of a key and a value"
    heads = ("Kept", "Rows held", "Room set aside", "Left empty", "Empty part")
    listing.draw("Room left empty", listing.table(caption, heads, rows))


def _waste_row(title: str, held: int, room: int) -> tuple[str, ...]:
    return title, show(held), show(room), show(room - held), amounts.share((room - held) / room)


def why_wrong(desk: Desk) -> str:
    """Whose rows have been lost by writing without a copy."""
    pool = pool_of(desk.bench)
    for name in pool.pages.tables:
        for token, (found, wrote) in enumerate(zip(pool.rows(name), pool.written[name], strict=True), 1):
            if found != wrote:
                words = _words(desk.bench, [wrote, found])
                return (
                    f"{name} wrote “{words[0]}” as token {token}, and reads “{words[1]}” there: another "
                    "sequence wrote into the same slot of the page that both hold."
                )
    return (
        "Nothing is lost yet: rows are lost when two sequences that hold the same page both write to it. Let "
        "B go on, and then A."
    )
