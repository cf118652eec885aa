"""LaTeX as the core writes it, set as HTML."""

from __future__ import annotations

import re
from html import unescape

import pytest

from attention_ui.typeset import aligned, inline


def plain(html: str) -> str:
    """What is read of HTML, with ^ and _ for what stands above and below."""
    marked = html.replace("<sup>", "^(").replace("<sub>", "_(").replace("</sup>", ")").replace("</sub>", ")")
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", marked)))


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"S_{1,2}", "S_(1,2)"),
        (r"\left(K^\top\right)_{1,2}", "(K^(⊤))_(1,2)"),
        (r"-0.5 \times (-2) + 3", "−0.5 × (−2) + 3"),
        (r"\approx -1", " ≈ −1"),
        (r"= a - b", " = a − b"),
        (r"e^{s - m}", "e^(s − m)"),
        (r"x^12", "x^(1)2"),
        (r"\frac{1}{2}", "12"),
        (r"\tanh\left(\frac{1}{2}\right)", "tanh(12)"),
        (r"\sqrt{2 / \pi}", "√2 / π"),
        (r"\max(0,\; 3)", "max(0, 3)"),
        (r"m = \max s", "m = max s"),
        (r"\textstyle\sum_j e^{x}", "∑_(j) e^(x)"),
        (r"W_{\text{gate}}", "W_(gate)"),
        (r"0 \quad \text{every entry is } {-\infty}", "0 every entry is −∞"),
        (r"\operatorname{erf}\left(x / \sqrt{2}\right)", "erf(x / √2)"),
        (r"-\left|1 - 2\right|", "−|1 − 2|"),
        (r"1 \cdot 10^{-5}", "1 · 10^(−5)"),
        (r"\widetilde{\omega}_1", "ω̃_(1)"),
        (r"x_i^2", "x^(2)_(i)"),
        (r"\text{a < b & c}", "a < b & c"),
    ],
)
def test_a_line_reads_as_it_is_meant(latex, text):
    assert plain(inline(latex)) == text


def test_letters_are_slanted_and_digits_and_words_are_not():
    assert inline(r"x_1 = \text{no} 2") == "<i>x</i><sub>1</sub>\u2005=\u00a0no2"


def test_a_fraction_a_root_and_high_brackets_have_their_marks():
    html = inline(r"\left(\frac{a}{\sqrt{b}}\right)")
    assert html.count('class="frac"') == html.count('class="root"') == 1
    assert html.count('class="tall"') == 2
    assert "tall" not in inline(r"\left(a\right)")


def test_a_new_line_may_begin_before_a_sum_and_not_within_a_product():
    assert inline(r"a \times b + c") == "<i>a</i>\u00a0×\u00a0<i>b</i>\u2005+\u00a0<i>c</i>"


@pytest.mark.parametrize(
    "latex", [r"\unknown", r"\frac{1}", "{a", "a}", r"\text a", r"\left(a", "a^", r"\right)"]
)
def test_what_the_core_does_not_write_is_refused(latex):
    with pytest.raises(ValueError, match=r"\S"):
        inline(latex)


def test_the_lines_of_a_block_stand_at_their_signs_and_are_said_in_one():
    html = aligned((r"A &= 1 \times 2", r"&\approx 2"), 'about "2" & more')
    assert html.startswith('<div class="worked" role="math" aria-label="about &quot;2&quot; &amp; more">')
    rows = re.findall(r"<div><span>(.*?)</span><span>(.*?)</span></div>", html)
    assert [plain(left) for left, _ in rows] == ["A", ""]
    assert [plain(right) for _, right in rows] == [" = 1 × 2", " ≈ 2"]
