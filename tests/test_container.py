"""What can be said about the image without building it."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

from streamlit import config
from streamlit.web.server.starlette import starlette_server

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
SETTINGS = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))


def command(instruction: str) -> list[str]:
    """The words of an instruction in exec form."""
    found = re.search(rf"^{instruction}.*?(\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert found, f"{instruction} is not in exec form"
    return list(json.loads(found[1]))


def test_the_websocket_is_set_up_as_streamlit_run_sets_it_up() -> None:
    config.get_config_options(force_reparse=True)
    config.set_option("server.maxMessageSize", SETTINGS["server"]["maxMessageSize"])
    words = command("ENTRYPOINT")
    ours = {word[2:].replace("-", "_"): value for word, value in pairwise(words) if word[:2] == "--"}
    theirs = {
        name: str(value).lower()
        for name, value in starlette_server._get_uvicorn_config_kwargs().items()
        if name.startswith("ws")
    }
    assert {name: ours.get(name) for name in theirs} == theirs


def test_the_server_stops_although_tabs_are_open() -> None:
    assert "--timeout-graceful-shutdown" in command("ENTRYPOINT")


def test_the_health_check_is_a_program() -> None:
    compile(command("HEALTHCHECK")[-1], "HEALTHCHECK", "exec")


def test_the_user_is_a_number_and_not_root() -> None:
    found = re.search(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert found
    assert int(found[1]) > 0


def test_everything_that_is_copied_is_let_through() -> None:
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / name).exists() for name in allowed)


def test_the_lock_holds_what_the_requirements_ask_for() -> None:
    wanted = re.findall(r"^[\w.-]+==[\w.]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    locked = re.findall(r"^[\w.-]+==[\w.]+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert wanted
    assert set(wanted) <= set(locked)


def test_every_setting_is_one_that_streamlit_knows() -> None:
    def names(table: dict[str, object], path: str = "") -> set[str]:
        return {
            name
            for key, value in table.items()
            for name in (names(value, f"{path}{key}.") if isinstance(value, dict) else {path + key})
        }

    assert names(SETTINGS) <= set(config._config_options_template)
