"""What every lesson has: a prediction before the numbers, a mistake to switch on, claims that are checked.

The sentences take their numbers from the sheet on screen; nothing here knows what a lesson is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

from attention_ui import live, panels, prose
from attention_ui.choices import Choice
from attention_ui.desk import Desk
from attention_ui.scene import Scene

UNDECIDED, SHOWN = "wait", "show"
OUTCOMES = {
    True: ("holds", "✓", "holds for these numbers"),
    False: ("fails", "✗", "does not hold for these numbers"),
}


def prediction(name: str, question: str, answers: Mapping[str, str]) -> Choice:
    """A question that a reader answers before looking; "p4.guess" and such is its name in the link."""
    options = {UNDECIDED: "not yet", **answers, SHOWN: "just show me"}
    return Choice(name, question, options, UNDECIDED, kind="list")


def is_open(desk: Desk, guess: Choice) -> bool:
    """Whether the reader has answered, so that the numbers may be seen."""
    return guess.of(desk.bench) != UNDECIDED


def verdict(desk: Desk, guess: Choice, right: str, because: str) -> None:
    """What came of a prediction: whether it holds for the numbers on screen, and why. Nothing before it."""
    answer = guess.of(desk.bench)
    if answer == UNDECIDED:
        prose.paragraph(
            "Make your prediction above; the answer is worked out from the numbers on screen.", kind="quiet"
        )
        return
    opening = {SHOWN: "", right: "As you said: "}.get(answer, "Not so here: ")
    held = f"{guess.options[right]}. " if right in guess.options else ""
    sentence = f"{opening}{held}{because}"
    prose.paragraph(f"{sentence[:1].upper()}{sentence[1:]}", kind="strong")


def check(claims: Sequence[tuple[str, bool]], title: str = "Check") -> None:
    """What the lesson says, each claim tried on the numbers on screen."""
    items = "".join(_claim(claim, *OUTCOMES[bool(holds)]) for claim, holds in claims)
    prose.header(title)
    prose.html(f'<ul class="prose checks">{items}</ul>')


def _claim(claim: str, kind: str, mark: str, outcome: str) -> str:
    mark = f'<span class="mark" aria-hidden="true">{mark}</span>'
    return f'<li class="{kind}">{mark} {escape(claim)} <span class="outcome">{outcome}</span></li>'


def also(name: str) -> Choice:
    """What a lesson can show of its sheet beside the board: tables for reading, programs."""
    options = {"none": "Board only", "tables": "Tables", "code": "As a program"}
    return Choice(name, "Show also", options, "none")


def show_also(desk: Desk, choice: Choice, scene_of: Callable[[Desk], Scene]) -> None:
    """Draw the choice made by `also`, and what it opens."""
    choice.draw(desk)
    kind = choice.of(desk.bench)
    if kind != "none":
        draw = panels.as_tables if kind == "tables" else panels.as_code
        live.then("also", lambda found: draw(scene_of(found)))
