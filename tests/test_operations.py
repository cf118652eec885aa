from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from attention_core import (
    activations,
    appending,
    cross_entropy_sheet,
    elementwise,
    gradient_sheet,
    heads,
    merging,
    operations,
    page_sheet,
    row_statistics,
    sampling_sheet,
    tile_sheet,
    tried,
    waves,
)
from attention_core.numbers import show
from attention_core.operations import (
    ADD,
    DIVIDE,
    KEEP,
    LOGSUMEXP,
    MASK,
    MATMUL,
    SCALE,
    SOFTCAP,
    SOFTMAX,
    TRANSPOSE,
    Operation,
    matmul,
)

pytestmark = pytest.mark.filterwarnings("error")

RNG = np.random.default_rng(2)
TALL, WIDE = RNG.normal(size=(7, 3)), RNG.normal(size=(3, 5))
TABLE = RNG.normal(size=(7, 5))
RULE = RNG.random((7, 5)) < 0.6
NUMBER = np.array(1.75)

PER_ROW, PER_COLUMN = RNG.normal(size=(7, 1)), RNG.normal(size=(1, 5))

INPUTS: dict[str, tuple[Any, ...]] = {
    MATMUL.name: (TALL, WIDE),
    TRANSPOSE.name: (TALL,),
    KEEP.name: (TABLE,),
    DIVIDE.name: (TABLE, NUMBER),
    SCALE.name: (TABLE, NUMBER),
    SOFTCAP.name: (TABLE, NUMBER),
    ADD.name: (TABLE, RNG.normal(size=(7, 5))),
    MASK.name: (TABLE, RULE),
    SOFTMAX.name: (TABLE,),
    LOGSUMEXP.name: (TABLE,),
    elementwise.MULTIPLY.name: (TABLE, RNG.normal(size=(7, 5))),
    elementwise.MINUS_FIRST.name: (TABLE, PER_ROW),
    elementwise.OVER_FIRST.name: (TABLE, PER_ROW),
    elementwise.MINUS_TOP.name: (TABLE, PER_COLUMN),
    elementwise.OVER_TOP.name: (TABLE, PER_COLUMN),
    elementwise.TIMES_TOP.name: (TABLE, PER_COLUMN),
    elementwise.PLUS_TOP.name: (TABLE, PER_COLUMN),
    elementwise.PLUS_NUMBER.name: (TABLE, NUMBER),
    row_statistics.ROOT.name: (PER_ROW**2, NUMBER),
    activations.SWISH.name: (TABLE, NUMBER),
    gradient_sheet.WEIGHED.name: (TABLE, RNG.normal(size=(7, 5))),
    gradient_sheet.SLOPE.name: (TABLE, NUMBER),
    cross_entropy_sheet.DIFFERENCE.name: (TABLE, RNG.normal(size=(7, 5))),
    cross_entropy_sheet.ROW_LOSS.name: (RNG.random((7, 5)), TABLE),
    tried.SLOPE.name: (TABLE, RNG.normal(size=(7, 5)), NUMBER),
    merging.LOG_ADD.name: (TABLE, RNG.normal(size=(7, 5))),
    merging.PART.name: (TABLE, RNG.normal(size=(7, 5))),
    merging.TIMES_FIRST.name: (TABLE, PER_ROW),
    tile_sheet.LARGER.name: (PER_ROW, RNG.normal(size=(7, 1))),
    tile_sheet.BELOW.name: (TABLE, PER_ROW),
    tile_sheet.DROP.name: (PER_ROW, RNG.normal(size=(7, 1))),
    tile_sheet.OVER_TOTAL.name: (TABLE, RNG.random((7, 1))),
    tile_sheet.WITH_LOG.name: (PER_ROW, RNG.random((7, 1)) / 2),
    waves.FREQUENCY.name: (RNG.random((2, 5)), NUMBER),
    waves.DISTANCE.name: (RNG.random((7, 1)), RNG.random((1, 5))),
}
CASES: list[tuple[Operation, tuple[Any, ...]]] = [
    (operation, INPUTS.get(operation.name, (TABLE,)))
    for module in (
        operations,
        elementwise,
        row_statistics,
        activations,
        waves,
        gradient_sheet,
        cross_entropy_sheet,
        merging,
        tried,
        tile_sheet,
        sampling_sheet,
    )
    for operation in module.OPERATIONS
]
CASES += [
    (waves.sines_and_cosines(dim, layout), (RNG.normal(size=(7, (dim + 1) // 2)),))
    for dim in (5, 6)
    for layout in ("interleaved", "concatenated")
]
CASES += [
    (waves.rotation(width, pairing, rotary), (RNG.normal(size=(7, width)), RNG.normal(size=(7, turned // 2))))
    for width, rotary, turned in ((6, 0, 6), (8, 4, 4), (5, 4, 4))
    for pairing in ("interleaved", "half")
]
THROWING_AWAY = [heads.columns(2, 3), heads.head_cut(1, 3, 4, 7)]  # what belongs to other heads
CASES += [(operation, (RNG.normal(size=(7, 12)),)) for operation in THROWING_AWAY]
CASES += [(heads.join((3, 5)), (TALL, TABLE)), (appending.appended(7), (TALL, TALL[:1]))]
CASES += [(appending.one_under_another(2), (TALL[:1], TALL[1:2]))]
THROWING_AWAY += [MASK, activations.RELU, tile_sheet.LARGER, page_sheet.stacked(6, 4, 2)]
CASES += [(THROWING_AWAY[-1], (RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))))]
SHARED_OUT = RNG.random((7, 5))
CASES += [(sampling_sheet.largest(3), (TABLE,))]
CASES += [(sampling_sheet.UNTIL, (SHARED_OUT, sampling_sheet.running_sum(SHARED_OUT), NUMBER))]
THROWING_AWAY += [sampling_sheet.largest(3), sampling_sheet.LARGEST_ONLY, sampling_sheet.UNTIL]
each_operation = pytest.mark.parametrize(("operation", "inputs"), CASES, ids=[op.name for op, _ in CASES])


def value_at(result: np.ndarray, i: int, j: int) -> float:
    return float(result[i, j] if result.ndim > 1 else result[i])


def cells(result: np.ndarray) -> list[tuple[int, int]]:
    return [(i, j) for i in range(result.shape[0]) for j in range(result.shape[1] if result.ndim > 1 else 1)]


def test_every_operation_has_a_name_of_its_own_and_is_tested_on_matrices_that_are_not_square() -> None:
    assert len({operation.name for operation, _ in CASES}) == len(CASES)
    for operation, inputs in CASES:
        assert len(inputs) == len(operation.reads), operation.name
        assert inputs[0].shape[0] != inputs[0].shape[1]


@each_operation
def test_the_numpy_text_computes_the_same_matrix(operation: Operation, inputs: tuple[Any, ...]) -> None:
    """With nothing but NumPy and the functions that the operation brings along."""
    names = dict(zip("abc", inputs, strict=False))
    text = operation.code.format(*names)
    got = eval(text, {"np": np, **{f.__name__: f for f in operation.helpers}, **names})
    np.testing.assert_array_equal(got, operation.compute(*inputs))


@each_operation
def test_every_template_has_a_place_for_every_input(operation: Operation, inputs: tuple[Any, ...]) -> None:
    for template in (operation.latex, operation.code, operation.torch):
        names = ("«one»", "«two»", "«three»")[: len(inputs)]
        filled = template.format(*names)
        assert all(name in filled for name in names)


@each_operation
def test_an_arrow_says_in_plain_words_what_is_done(operation: Operation, inputs: tuple[Any, ...]) -> None:
    symbols = ("«one»", "«two»", "«three»")[: len(inputs)]
    text = operation.over_arrow(symbols)
    assert bool(text) == (operation is not KEEP)
    assert not set(text) & set("{}\\")


def test_of_two_equals_an_arrow_names_the_one_that_it_does_not_come_from() -> None:
    for operation, sign in ((ADD, "+"), (elementwise.MULTIPLY, "×"), (gradient_sheet.WEIGHED, "∘")):
        assert operation.over_arrow("AB") == f"{sign} B"
        assert operation.over_arrow("AB", place=1) == f"{sign} A"


def test_where_the_order_matters_an_arrow_from_the_second_writes_the_first_too() -> None:
    for operation, sign in ((elementwise.OVER_FIRST, "÷"), (elementwise.MINUS_FIRST, "−")):
        assert operation.over_arrow("CD") == f"{sign} D"
        assert operation.over_arrow("CD", place=1) == f"C {sign} D"


@each_operation
def test_latex_braces_match(operation: Operation, inputs: tuple[Any, ...]) -> None:
    filled = operation.latex.format(*("A", "B", "C")[: len(inputs)])
    assert filled.count("{") == filled.count("}")
    assert filled.count(r"\left") == filled.count(r"\right")


@each_operation
def test_the_declared_cells_are_the_cells_that_matter(operation: Operation, inputs: tuple[Any, ...]) -> None:
    """Change one entry of an input at a time: exactly the cells that read it may change."""
    before = operation.compute(*inputs)
    for which, pattern in enumerate(operation.reads):
        for place in np.ndindex(inputs[which].shape):
            changed = [np.array(a) for a in inputs]
            changed[which][place] = (
                ~inputs[which][place] if inputs[which].dtype == bool else 1.7 - inputs[which][place]
            )
            with np.errstate(invalid="ignore"):
                after = operation.compute(*changed)
            moved = [(i, j) for i, j in cells(before) if value_at(after, i, j) != value_at(before, i, j)]
            assert all(reads_place(pattern, place, i, j) for i, j in moved), (pattern, place, moved)
            assert moved or operation in THROWING_AWAY


def test_a_pattern_means_the_cells_that_it_says() -> None:
    """Cell (2, 3), from a matrix with 8 columns."""
    places = list(np.ndindex(8, 8))
    assert [p for p in places if reads_place("pair", p, 2, 3)] == [(2, 2), (2, 3)]
    assert [p for p in places if reads_place("pair 2", p, 2, 3)] == [(2, 3)]
    assert [p for p in places if reads_place("half 6", p, 2, 3)] == [(2, 0), (2, 3)]
    assert [p for p in places if reads_place("half 6", p, 2, 7)] == [(2, 7)]
    assert [p for p in places if reads_place("angle", p, 2, 3)] == [(2, 1)]
    assert [p for p in places if reads_place("angle 2", p, 2, 3)] == []
    assert [p for p in places if reads_place("angle-half 6", p, 2, 4)] == [(2, 1)]
    assert [p for p in places if reads_place("shift -2", p, 2, 3)] == [(2, 1)]


def reads_place(pattern: str, place: tuple[int, ...], i: int, j: int) -> bool:
    """Whether cell (i, j) is made from this place, from the table in Operation."""
    name, *numbers = pattern.split()
    width = int(numbers[0]) if numbers else 1 << 30
    if name == "all":
        return True
    if name == "head":  # of a matrix (7, 12)
        head, d, n, many = map(int, numbers)
        return place == divmod((head * n + i) * d + j, many * d)
    if name == "rows":
        return place == (int(numbers[i]), j)
    if name == "at":
        here, row = map(int, numbers)
        return i == here and place == (row, j)
    half = width // 2
    within = j < width
    return (
        place
        in {
            "row": {(i, place[1])},
            "column": {(place[0], j)},
            "cell": {(i, j)},
            "swapped": {(j, i)},
            "first": {(i, 0)},
            "top": {(0, j)},
            "shift": {(i, j + width)},
            "pair": {(i, j), (i, j + 1 - 2 * (j % 2))} if within else {(i, j)},
            "half": {(i, j), (i, (j + half) % width)} if within else {(i, j)},
            "angle": {(i, j // 2)} if within else set(),
            "angle-half": {(i, j % half)} if within else set(),
        }[name]
    )


@each_operation
def test_the_worked_cell_ends_in_the_number_of_the_matrix(
    operation: Operation, inputs: tuple[Any, ...]
) -> None:
    result = operation.compute(*inputs)
    for i, j in cells(result):
        work = operation.work(inputs, i, j, show)
        shown = show(value_at(result, i, j))
        assert work.text.endswith(shown), work.text
        last = work.latex[-1].removesuffix(r" \quad \text{unchanged}")
        assert last.endswith(shown.replace("−", "-").replace("∞", r"\infty"))


@each_operation
def test_every_step_of_the_arithmetic_comes_to_the_same_number(
    operation: Operation, inputs: tuple[Any, ...]
) -> None:
    """The text is calculated, as it stands, with numbers written out in full."""
    result = operation.compute(*inputs)
    for i, j in cells(result):
        steps = calculated(operation.work(inputs, i, j, in_full).text)
        assert len(steps) > 1 or not operation.flops([np.shape(a) for a in inputs])
        np.testing.assert_allclose(steps, value_at(result, i, j), rtol=1e-9, atol=1e-12)


def in_full(value: float) -> str:
    return repr(float(value)).replace("-", "−").replace("inf", "∞")


def calculated(text: str) -> list[float]:
    """What each side of the signs in a worked text comes to; before a colon stand words."""
    for written, python in (
        (" stays ", "="),
        ("≈", "="),
        ("−", "-"),
        ("×", "*"),
        ("²", "**2"),
        ("³", "**3"),
        ("∞", "inf"),
        ("e^", "exp"),
        ("√", "sqrt"),
        ("π", "pi"),
    ):
        text = text.replace(written, python)
    text = re.sub(r"(sqrt|log )([\d.]+)", r"\1(\2)", text)
    text = re.sub(r"\|(.*?)\|", r"abs(\1)", text).replace("^", "**")
    sides = text.rpartition(": ")[2].split("=")
    return [float(eval(side.strip(), {**vars(math), "max": max})) for side in sides]


@each_operation
def test_the_worked_lines_are_an_aligned_block(operation: Operation, inputs: tuple[Any, ...]) -> None:
    for i, j in cells(operation.compute(*inputs)):
        work = operation.work(inputs, i, j, show, name="N")
        assert sum(line.startswith("N &") for line in work.latex) == 1
        for line in work.latex:
            assert line.count("&") == 1, line
            assert line.count("{") == line.count("}"), line
            assert not re.search("[−∞×≈√²³]", line), line


@each_operation
def test_rounding_is_left_to_the_formatter(operation: Operation, inputs: tuple[Any, ...]) -> None:
    """A formatter that writes X for everything leaves no digits but those of the formula itself."""
    result = operation.compute(*inputs)
    work = operation.work(
        inputs, result.shape[0] - 1, result.shape[-1] - 1 if result.ndim > 1 else 0, lambda _: "X"
    )
    bare = re.sub(r"row \d+|column \d+|_\{\d+,\d+\}|\^2|[dn] [−-] 1", "", " ".join((work.text, *work.latex)))
    own = set(re.findall(r"[\d.]+", re.sub(r"(?<!\{)\{\d\}", "", operation.latex)))
    assert set(re.findall(r"\d[\d.]*", bare)) <= own, bare


def test_the_dot_product_of_the_text_book() -> None:
    """For q = [1, 0] and k = [1, 1] the dot product is (1×1) + (0×1) = 1."""
    work = MATMUL.work((np.array([[1.0, 0.0]]), np.array([[1.0], [1.0]])), 0, 0, show)
    assert work.text == "1×1 + 0×1 = 1"
    assert MATMUL.work((np.array([[1.0, 0.0]]), np.array([[2.0], [1.0]])), 0, 0, show).text == "1×2 + 0×1 = 2"


def test_negative_numbers_stand_in_parentheses() -> None:
    work = MATMUL.work((np.array([[-1.0, 2.0]]), np.array([[3.0], [-4.0]])), 0, 0, show, name="S_{1,1}")
    assert work.text == "(−1)×3 + 2×(−4) = −11"
    assert work.latex == (
        r"S_{1,1} &= (-1) \times 3 + 2 \times (-4)",
        "&= -3 + (-8)",
        "&= -11",
    )
    assert ADD.work((np.array([[1.5]]), np.array([[-0.5]])), 0, 0, show).text == "1.50 + (−0.50) = 1"


def test_division_shows_the_root_and_its_rounded_value() -> None:
    work = DIVIDE.work((np.array([[1.5]]), np.sqrt(3.0)), 0, 0, show, name="N")
    assert work.text == "1.50 / √3 ≈ 1.50 / 1.73 ≈ 0.87"
    assert work.latex == (
        r"N &= \frac{1.50}{\sqrt{3}}",
        r"&\approx \frac{1.50}{1.73}",
        r"&\approx 0.87",
    )
    assert DIVIDE.work((np.array([[3.0]]), np.sqrt(4.0)), 0, 0, show).text == "3 / √4 = 3 / 2 = 1.50"
    assert DIVIDE.work((np.array([[3.0]]), np.array(0.3)), 0, 0, show).text == "3 / 0.30 = 10"


def test_the_mask_adds_zero_or_minus_infinity() -> None:
    inputs = (np.array([[1.5, np.nan]]), np.array([[True, False]]))
    assert MASK.work(inputs, 0, 0, show).text == "1.50 + 0 = 1.50"
    assert MASK.work(inputs, 0, 1, show).text.endswith("+ (−∞) = −∞")
    assert MASK.work((inputs[0][:, :1], np.array([[False]])), 0, 0, show).latex == (
        r" &= 1.50 + (-\infty)",
        r"&= -\infty",
    )


def test_softmax_is_worked_in_five_steps() -> None:
    work = SOFTMAX.work((np.array([[0.0, 2.0, -np.inf]]),), 0, 0, show, name="A_{1,1}")
    assert work.latex == (
        r"s &= (0,\; 2,\; -\infty)",
        r"m &= \max s = 2",
        r"s - m &= (-2,\; 0,\; -\infty)",
        r"e^{s - m} &\approx (0.14,\; 1,\; 0)",
        r"\textstyle\sum e^{s - m} &= 0.14 + 1 + 0",
        "&= 1.14",
        r"A_{1,1} &= \frac{0.14}{1.14} \approx 0.12",
    )
    assert work.text == "e^(0 − 2) / (e^(0 − 2) + e^(2 − 2) + e^(−∞ − 2)) ≈ 0.14 / 1.14 ≈ 0.12"


def test_a_query_that_may_look_nowhere_says_so() -> None:
    work = SOFTMAX.work((np.full((2, 3), -np.inf),), 1, 0, show, name="A_{2,1}")
    assert work.text == "every entry of row 2 is −∞: this query may look nowhere, so its weight is 0"
    assert "may look nowhere" in work.latex[-1]
    assert work.latex[-1].startswith("A_{2,1} &= 0")


@pytest.mark.parametrize("n", [8, 9, 16, 17, 31])
def test_rows_of_more_than_eight_terms_go_on_over_several_lines_and_lose_nothing(n: int) -> None:
    row, column = np.arange(1.0, n + 1)[None], np.arange(n + 1.0, 1, -1)[:, None]
    work = MATMUL.work((row, column), 0, 0, show)
    assert work.text.count("×") == n
    assert sum(line.count(r"\times") for line in work.latex) == n
    assert max(line.count(r"\times") for line in work.latex) == 8
    shares = SOFTMAX.work((row,), 0, 0, show).latex
    listed = " ".join(shares[: shares.index(next(line for line in shares if line.startswith("m &")))])
    assert re.findall(r"\d+", listed) == [str(k) for k in range(1, n + 1)]


def test_equals_holds_for_the_numbers_as_shown_and_about_says_rounding() -> None:
    thirds = MATMUL.work((np.array([[1 / 3, 1 / 3]]), np.array([[1.0], [1.0]])), 0, 0, show)
    assert thirds.text == "0.33×1 + 0.33×1 ≈ 0.67"
    exact = MATMUL.work((np.array([[0.1, 0.2]]), np.array([[1.0], [1.0]])), 0, 0, show)
    assert exact.text == "0.10×1 + 0.20×1 = 0.30"  # 0.30000000000000004 in binary


def test_a_masked_nan_takes_no_part_in_a_product_and_an_open_one_does() -> None:
    weights = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    masked = np.array([[0.0, 0.0, -np.inf], [0.0, -800.0, -np.inf]])
    v = np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, np.inf]])
    np.testing.assert_array_equal(matmul(weights, v, masked), [[2, 3], [1, 2]])
    v[1, 0] = np.nan  # open to both queries, though the second one's weight has rounded to 0
    np.testing.assert_array_equal(matmul(weights, v, masked), [[np.nan, 3], [np.nan, 2]])
    work = MATMUL.work((weights, v), 0, 1, show, aside=masked)
    assert work.text == "0.50×2 + 0.50×4 + 0×∞ (takes no part) = 3"


def test_a_product_of_stacked_matrices_leaves_masked_values_out_one_by_one() -> None:
    rng = np.random.default_rng(3)
    weights, v = rng.random((2, 3, 7, 5)), rng.normal(size=(2, 1, 5, 4))
    masked = np.where(rng.random((2, 3, 7, 5)) < 0.5, -np.inf, 0.0)
    weights[masked == -np.inf] = 0
    v[0, 0, 2, 1], v[1, 0, 2, 3], v[1, 0, 4] = np.nan, np.inf, np.nan
    want = np.zeros((2, 3, 7, 4))
    for b, h, i, c in np.ndindex(want.shape):
        terms = [weights[b, h, i, j] * v[b, 0, j, c] for j in range(5) if masked[b, h, i, j] != -np.inf]
        want[b, h, i, c] = sum(terms)
    np.testing.assert_allclose(matmul(weights, v, masked), want, rtol=1e-13)


def test_a_mask_or_bias_never_makes_the_table_larger() -> None:
    for operation, table in (
        (MASK, np.ones((5, 5), dtype=bool)),
        (MASK, np.zeros((5, 5), dtype=bool)),
        (ADD, TABLE),
    ):
        with pytest.raises(ValueError, match="last two axes"):
            operation.compute(np.zeros((1, 5)), table)


def test_operations_are_counted_with_two_for_a_multiply_add() -> None:
    """n·m dot products of d terms: d products and d additions each, counted one by one."""
    n, d, m = 7, 3, 5
    assert MATMUL.flops([(n, d), (d, m)]) == sum(2 for _ in np.ndindex(n, d, m)) == 210
    assert MATMUL.flops([(4, 2, n, d), (2, d, m)]) == 8 * 210
    assert TRANSPOSE.flops([(n, m)]) == KEEP.flops([(n, m)]) == 0
    assert DIVIDE.flops([(n, m), ()]) == SCALE.flops([(n, m), ()]) == ADD.flops([(n, m), (n, m)]) == 35
    assert SOFTMAX.flops([(n, m)]) == 5 * 35
