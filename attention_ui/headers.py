"""What a browser is told about every answer: where a page may load from, and who may show it in a frame.

The policy is the tightest under which Streamlit 1.67 and this app run; tests/browser/test_headers.py opens
every page under it. What it has to leave open, and why:

- `script-src blob:`: a component's inline JavaScript, the board's, is loaded from a blob;
- `script-src 'wasm-unsafe-eval'`: Streamlit's messages hold 64-bit whole numbers, for which it uses
  WebAssembly; text is still never made into a script;
- `style-src 'unsafe-inline'`: Streamlit writes its styles into the page while it runs; Plotly too;
- `img-src data: blob:`: icons within styles, and pictures that Plotly makes for saving;
- `font-src data:`: the letters of formulas stand within Streamlit's styles;
- the one inline script of Streamlit's page is let in by its hash, read from the file itself.

ATTENTION_EMBED_IN names the sites that may show the app in a frame, a course page for example:
`https://moodle.school.example`; several are separated by blanks. By default none but itself may.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from pathlib import Path

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SETTING = "ATTENTION_EMBED_IN"
SITE = re.compile(r"https?://(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?", re.ASCII)
FEATURES = (
    "accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "magnetometer", "microphone",
    "midi", "payment", "usb",
)  # fmt: skip
"""What a page could ask the browser for, and these never do."""


def inline_scripts() -> list[str]:
    """The hashes of the scripts that stand in Streamlit's own page, as a policy names them."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    return [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts
    ]


def sites() -> list[str]:
    """The sites that may show the app in a frame. Raises ValueError for what is not the address of a site."""
    named = os.environ.get(SETTING, "").split()
    wrong = [name for name in named if not SITE.fullmatch(name)]
    if wrong:
        raise ValueError(
            f"{SETTING} names {wrong[0]!r}; a site is written like https://moodle.school.example"
        )
    return named


def policy() -> str:
    """The content security policy."""
    rules = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "blob:", "'wasm-unsafe-eval'", *inline_scripts()],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'self'", *sites()],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in rules.items())


def headers() -> dict[str, str]:
    """Every header, by name."""
    found = {
        "content-security-policy": policy(),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",  # a link holds what its reader typed
        "permissions-policy": ", ".join(f"{feature}=()" for feature in FEATURES),
    }
    # older browsers know only this one, and it cannot name a site
    return found if sites() else {**found, "x-frame-options": "SAMEORIGIN"}


class SecurityHeaders:
    """Puts the headers on every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on; the answer comes back with the headers."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, sent)
