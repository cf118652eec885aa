"""Every page, run through the frame as a reader would see it: by navigation, by link, with every switch."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attention_core.examples import EXAMPLES
from attention_core.masks import MASKS
from attention_core.steps import STEPS
from attention_ui.bench import WORDS, givens, numbers, opened
from attention_ui.desk import Desk
from attention_ui.grids import grid
from attention_ui.lessons import LESSONS
from attention_ui.links import to_query
from attention_ui.scene import scene

ROOT = Path(__file__).parent.parent
WRONG = ("nan", "NaN", "not a number", "−0.00", "None")


def open_app(page: str = "walkthrough", **query: object) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update({name: str(value) for name, value in query.items()})
    app.run()
    if page != "home":
        app.switch_page(f"pages/{page}.py").run()
    return checked(app)


def checked(app: AppTest) -> AppTest:
    """The app, after making sure that it shows no error."""
    assert [error.message for error in app.exception] == []
    return app


def desk_of(app: AppTest) -> Desk:
    desk: Desk = app.session_state["desk"]
    return desk


def send(app: AppTest, *operations: list) -> AppTest:
    """What the board would send: AppTest stands in for it by its key."""
    desk = desk_of(app)
    ops = [[desk.ack + k, *op] for k, op in enumerate(operations, start=1)]
    app.session_state["board"] = {"ops": {"session": desk.session, "ops": ops}}
    return checked(app.run())


def words(app: AppTest) -> str:
    """All the text of the page that is not inside the board."""
    kinds = ("title", "header", "markdown", "caption", "latex")
    texts = [str(element.value) for kind in kinds for element in getattr(app, kind)]
    return "\n".join([*texts, *(element.proto.body for element in app.get("html")), *passages(app).values()])


def passages(app: AppTest) -> dict[str, str]:
    """What follows the board in words and tables, by name, as HTML."""
    told = [json.loads(element.proto.bytes) for element in app.get("bidi_component") if element.proto.bytes]
    return {data["name"]: data["html"] for data in told if "html" in data}


def test_the_lessons_are_the_files_in_pages():
    assert {lesson.slug for lesson in LESSONS} == {path.stem for path in (ROOT / "pages").glob("*.py")}
    assert LESSONS[0].slug == "home"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
def test_a_page_opens(lesson):
    assert open_app(lesson.slug).title[0].value == lesson.title


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_shows_on_every_page(lesson, name):
    app = open_app(lesson.slug, example=name)
    assert desk_of(app).bench == opened(name) or name == "tokens"
    shown = words(app).replace("None (encoder)", "")
    assert not [wrong for wrong in WRONG if wrong in shown]


@pytest.mark.parametrize("way", ["x", "qkv"])
@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
def test_every_step_says_what_it_is(way, step):
    app = open_app(way=way, step=step)
    assert f"Step {step} of 8 · {STEPS[step - 1].title}" in words(app)


@pytest.mark.parametrize("panel", WORDS["panel"])
@pytest.mark.parametrize(
    "query",
    [
        {},
        {"way": "qkv", "nq": 3, "nk": 5},
        {"n": 1, "dk": 1},
        {"mask": "padding-0"},
        {"scale": "0.25"},
        {"n": 16, "dk": 16},
    ],
)
def test_every_panel_opens(panel, query):
    open_app(panel=panel, view="all", large=40, **query)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("page", ["walkthrough", "compare"])
def test_every_mask_can_be_chosen_and_combined(page, kind):
    app = open_app(page)
    app.selectbox(key="mask_0_kind").set_value(kind)
    checked(app.run())
    assert desk_of(app).bench.mask.kind == kind
    app.selectbox(key="mask_join").set_value("and")
    checked(app.run())
    assert desk_of(app).bench.mask.join == "and"
    app.selectbox(key="mask_1_kind").set_value("padding")
    checked(app.run())
    assert desk_of(app).bench.mask.second.kind == "padding"


def test_an_edit_reaches_every_number():
    app = open_app()
    before = scene(desk_of(app).bench)
    app = send(app, ["edit", "x", 0, 0, "1/3"])
    bench = desk_of(app).bench
    assert numbers(bench, "x")[0, 0] == 1 / 3
    assert not np.array_equal(scene(bench).values["output"], before.values["output"])


def test_an_edit_is_there_on_another_page_and_back():
    app = send(open_app(), ["edit", "x", 1, 1, "0,5"])
    app.switch_page("pages/compare.py").run()
    app.switch_page("pages/walkthrough.py").run()
    assert numbers(desk_of(checked(app)).bench, "x")[1, 1] == 0.5


def test_thirds_add_up_to_one_and_the_page_says_that_cells_are_rounded():
    equal = {"example": "average", "n": 3, "mask": "none"}
    made = grid(scene(desk_of(open_app(**equal)).bench), "weights")
    assert [list(row) for row in made.cells] == [["0.33"] * 3] * 3
    assert (list(made.sums), made.sums_label) == (["1"] * 3, "row sum (cells are rounded)")
    halves = grid(scene(desk_of(open_app(**{**equal, "n": 2})).bench), "weights")
    assert halves.sums_label == "row sum"


def test_sliders_keep_what_is_inside_and_growing_again_gives_the_same_numbers():
    app = open_app(dk=8)
    app = send(app, ["edit", "w_q", 2, 7, "4.25"], ["edit", "w_q", 0, 0, "7"])
    before = givens(desk_of(app).bench)
    app.slider(key="d_k").set_value(2).run()
    assert numbers(desk_of(app).bench, "w_q")[0, 0] == 7
    app.slider(key="d_k").set_value(8).run()
    for name, values in givens(desk_of(checked(app)).bench).items():
        np.testing.assert_array_equal(values, before[name])


def test_the_selection_moves_into_range_when_the_sequence_shrinks():
    app = open_app(n=8, cell="weights.8.7")
    app.slider(key="n").set_value(4).run()
    assert scene(desk_of(checked(app)).bench).selected == ("weights", 3, 3)
    assert "Weights, query 4, down · key 4, down" in words(app)


def test_a_masked_cell_says_why_it_is_masked():
    app = open_app(view="all", cell="masked.1.3")
    assert "Query 1 may not look at key 3: key 3 lies after query 1." in words(app)
    app = open_app(view="all", cell="mask.3.1")
    assert "Query 3 may look at key 1: key 1 lies before query 3." in words(app)


def test_undo_moves_the_sliders_back():
    app = open_app()
    app.slider(key="n").set_value(9).run()
    app = send(app, ["undo"])
    assert app.slider(key="n").value == 4
    app = send(app, ["redo"])
    assert app.slider(key="n").value == 9


def test_reset_is_seen_by_every_control():
    app = open_app()
    app.slider(key="n").set_value(9).run()
    app.selectbox(key="mask_0_kind").set_value("none").run()
    app = send(app, ["edit", "x", 0, 0, "9"], ["reset"])
    assert app.slider(key="n").value == 4 and app.selectbox(key="mask_0_kind").value == "causal"
    assert to_query(desk_of(app).bench) in ("", "cell=x.1.1")


def test_choosing_an_example_where_q_is_k_and_editing_q_leaves_k():
    app = open_app(example="same", way="qkv")
    k = numbers(desk_of(app).bench, "k")
    app = send(app, ["edit", "q", 0, 0, "3"])
    np.testing.assert_array_equal(numbers(desk_of(app).bench, "k"), k)


def test_tokens_set_the_length_and_bad_ones_are_refused_in_words():
    app = open_app()
    app.text_input(key="tokens").set_value("the cat the").run()
    bench = desk_of(checked(app)).bench
    assert (bench.tokens, bench.n_q, bench.n_k) == (("the", "cat", "the"), 3, 3)
    app.text_input(key="tokens").set_value(" ".join(["t"] * 17)).run()
    assert desk_of(checked(app)).bench == bench
    assert desk_of(app).refused["tokens"][0]
    assert app.text_input(key="tokens").value == " ".join(["t"] * 17)
    app.text_input(key="tokens").set_value("a b").run()
    assert desk_of(app).bench.n_k == 2 and not desk_of(app).refused


def test_a_scaling_factor_of_ones_own():
    app = open_app()
    app.button_group(key="scaling").set_value("number").run()
    assert desk_of(checked(app)).bench.scaling == 0.5
    app.text_input(key="factor").set_value("abc").run()
    assert "factor" in desk_of(checked(app)).refused
    app.text_input(key="factor").set_value("sqrt(2)").run()
    assert desk_of(app).bench.scaling == 2**0.5


def test_changing_the_way_in_keeps_q_k_and_v():
    app = open_app()
    before = scene(desk_of(app).bench).values["q"]
    app = open_app(way="qkv")
    np.testing.assert_array_equal(numbers(desk_of(app).bench, "q"), before)


@pytest.mark.parametrize("page", [lesson.slug for lesson in LESSONS])
@pytest.mark.parametrize(
    "query",
    [
        {"n": "999"}, {"n": "abc"}, {"n": "-1"}, {"m": "1AAAA"},
        {"m": "1" + "A" * 10_000}, {"m": "9zCorEAghsgA"},
        {"m": "<script>alert(1)</script>"}, {"example": "nothing"}, {"mask": "**b**"}, {"tokens": '"'},
    ],
)  # fmt: skip
def test_a_damaged_link_says_so_in_one_sentence_on_every_page(page, query):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    app.query_params.update(query)
    app.run()
    assert desk_of(checked(app)).notice.startswith("Not understood in this link: ")
    assert desk_of(app).bench == opened("tokens")
    app.switch_page(f"pages/{page}.py").run()
    checked(app)


def test_a_link_brings_everything_with_it():
    app = send(
        open_app(), ["edit", "x", 2, 0, "0.125"], ["edit", "w_v", 0, 0, "sqrt(2)"], ["select", "output", 1, 1]
    )
    app.slider(key="n").set_value(6).run()
    bench = desk_of(app).bench
    again = open_app(**dict(parse_qsl(to_query(bench))))
    assert desk_of(again).bench == bench


def test_two_sessions_know_nothing_of_each_other():
    one, other = open_app(), open_app()
    send(one, ["edit", "x", 0, 0, "8"])
    assert numbers(desk_of(checked(other.run())).bench, "x")[0, 0] == 1
    assert desk_of(one).session != desk_of(other).session


@pytest.mark.parametrize("large", [17, 64, 128, 256])
def test_long_sequences_are_drawn_and_counted(large):
    app = open_app(panel="large", large=large)
    assert app.slider(key="large").value == large
