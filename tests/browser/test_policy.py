"""The content security policy in a real browser: all that the app does runs under it, and nothing else."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from attention_ui.headers import SETTING
from attention_ui.lessons import LESSONS

from .conftest import Server, free_port, until

APP = Path(__file__).parents[2] / "app.py"
WATCH = """
window.refused = [];
document.addEventListener('securitypolicyviolation',
  (event) => window.refused.push(`${event.effectiveDirective} ${event.blockedURI}`));
"""


def refused(page: Any) -> list[str]:
    """What the browser refused to load or run on this page since it was opened."""
    return list(page.evaluate("window.refused"))


@pytest.fixture
def watched(serve: Callable[..., Any], visit: Callable[..., Any]) -> Callable[..., Any]:
    """A function that opens a page of the app with an ear for refusals, and waits until it has been drawn."""

    def open_page(path: str) -> Any:
        opened = visit("about:blank")
        opened.host = "localhost"
        opened.page.add_init_script(WATCH)
        opened.page.goto(f"{serve(APP).url}/{path}")
        opened.page.get_by_role("heading", level=1).first.wait_for()
        opened.page.wait_for_function(
            "() => document.querySelector('.stApp')?.dataset.testScriptState === 'notRunning'"
        )
        return opened

    return open_page


@pytest.mark.parametrize("slug", [lesson.slug for lesson in LESSONS])
def test_every_page_opens_and_nothing_of_it_is_refused(watched: Callable[..., Any], slug: str) -> None:
    page = watched("" if slug == LESSONS[0].slug else slug).page
    page.wait_for_timeout(300)
    assert refused(page) == []


def test_an_edit_of_the_board_and_the_figure_work_under_it(watched: Callable[..., Any]) -> None:
    page = watched("walkthrough?way=qkv&view=all&panel=heat").page
    page.locator(".js-plotly-plot .main-svg").first.wait_for()
    before = page.get_by_role("grid", name="Output", exact=True).inner_text()
    page.get_by_role("grid", name="Q", exact=True).get_by_role("gridcell").first.click()
    page.keyboard.type("7.5")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search.includes('m=')")
    page.get_by_role("grid", name="Output", exact=True).filter(has_not_text=before).wait_for()
    assert page.locator(".js-plotly-plot .hm, .js-plotly-plot .heatmaplayer image").count() > 0
    assert refused(page) == []


def test_script_from_elsewhere_written_in_or_made_from_text_is_refused(watched: Callable[..., Any]) -> None:
    opened = watched("")
    opened.page.evaluate(
        """async () => {
          const add = (name, set) => document.head.append(Object.assign(document.createElement(name), set));
          add('script', { src: '//elsewhere.invalid/x.js' });
          add('script', { textContent: 'window.ran = true' });
          add('link', { rel: 'stylesheet', href: '//elsewhere.invalid/x.css' });
          add('iframe', { srcdoc: '<script>parent.ran = true</script>' });
          document.body.append(Object.assign(new Image(), { src: '//elsewhere.invalid/x.png' }));
          await fetch('//elsewhere.invalid/').catch(() => {});
          setTimeout('window.ran = true');
          await new Promise((done) => setTimeout(done, 300));
        }"""
    )
    found = {line.split()[0] for line in refused(opened.page)}
    assert {"script-src-elem", "script-src", "style-src-elem", "img-src", "connect-src"} <= found
    assert opened.page.evaluate("window.ran") is None
    assert len(opened.errors) >= len(found)  # the console says so
    opened.errors.clear()
    opened.foreign.clear()  # asked for, and refused before anything was sent


@pytest.fixture
def course() -> Iterator[str]:
    """A page of another site that shows whatever it is asked for in a frame: `/?http://…`."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown = self.path.partition("?")[2]
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f'<link rel="icon" href="data:,"><iframe src="{shown}"></iframe>'.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def in_a_frame(visit: Callable[..., Any], course: str, url: str) -> Any:
    opened = visit(f"{course}/?{url}")
    opened.foreign.clear()
    opened.host = "localhost"
    return opened


def test_no_other_site_may_show_it_in_a_frame(serve, visit, course) -> None:
    opened = in_a_frame(visit, course, serve(APP).url)
    until(opened.page, lambda: any("frame-ancestors" in error for error in opened.errors))
    opened.page.wait_for_timeout(1000)
    assert opened.page.frames[-1].get_by_role("heading", level=1).count() == 0
    opened.errors.clear()


def test_a_course_page_that_the_setting_names_may(visit, course, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(SETTING, course)
    server = Server(APP, free_port(), tmp_path)
    server.start()
    try:
        with urlopen(f"{server.url}/", timeout=10) as answer:
            assert "x-frame-options" not in answer.headers
        opened = in_a_frame(visit, course, f"{server.url}/walkthrough")
        opened.page.frames[-1].get_by_role("grid").first.wait_for()
        opened.page.close()
    finally:
        server.stop()
