"""The policy that a browser is given, and the setting that lets a course page show the app in a frame."""

from __future__ import annotations

import pytest

from attention_ui.headers import SETTING, headers, inline_scripts, policy


def rules() -> dict[str, list[str]]:
    """The policy, taken apart."""
    return {rule.split()[0]: rule.split()[1:] for rule in policy().split("; ")}


def test_nothing_may_come_from_elsewhere_and_no_text_becomes_a_script() -> None:
    sources = {source for listed in rules().values() for source in listed}
    assert sources - {"'self'", "'none'", "data:", "blob:", "'unsafe-inline'", "'wasm-unsafe-eval'"} == set(
        inline_scripts()
    )
    assert not {"'unsafe-inline'", "'unsafe-eval'", "data:"} & set(rules()["script-src"])
    assert rules()["default-src"] == ["'none'"]


def test_streamlits_page_has_the_one_inline_script_that_is_let_in_by_hash() -> None:
    assert len(inline_scripts()) == 1


def test_only_the_app_itself_may_show_it_in_a_frame() -> None:
    assert rules()["frame-ancestors"] == ["'self'"]
    assert headers()["x-frame-options"] == "SAMEORIGIN"


def test_the_sites_that_the_setting_names_may_show_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "https://moodle.school.example http://10.0.0.7:8080 https://*.course.example")
    assert rules()["frame-ancestors"] == [
        "'self'",
        "https://moodle.school.example",
        "http://10.0.0.7:8080",
        "https://*.course.example",
    ]
    assert "x-frame-options" not in headers()


@pytest.mark.parametrize(
    "named", ["*", "moodle.example", "https://a.example/course", "https://a;script-src", "'self'"]
)
def test_what_is_not_the_address_of_a_site_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv(SETTING, named)
    with pytest.raises(ValueError, match="ATTENTION_EMBED_IN names"):
        headers()
