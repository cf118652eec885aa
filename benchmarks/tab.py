"""What a browser's tab keeps of its session: the half of Streamlit's websocket protocol that a reader speaks.

`ask` writes a request for a run, `take` reads what the server answers. Nothing here opens a connection, so
that one reader at a time and two hundred at once share it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

BOARD = "board"  # the key of the board
KEPT_RUNS = 2  # for which a browser keeps a message that it was told to keep
OVER = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)


Kept = tuple[int, ForwardMsg]  # the run in which it was last seen, and the message


class PageError(Exception):
    """The app showed an error where a page should be."""


@dataclass
class Tab:
    """One open tab."""

    query: str = ""
    page: str = ""  # the hash of the page that is open
    pages: dict[str, str] = field(default_factory=dict)  # hashes, by the pages' paths
    ids: dict[str, str] = field(default_factory=dict)  # of widgets, by their keys
    fragments: dict[str, str] = field(default_factory=dict)  # that hold them, by their ids
    states: dict[str, WidgetState] = field(default_factory=dict)
    board: dict[str, Any] = field(default_factory=dict)  # what the board was last told
    cached: dict[str, Kept] = field(default_factory=dict)  # messages that are kept, by their hashes
    text: str = ""  # what st.text shows
    session: str = ""
    runs: int = 0

    def ask(self, fragment: str = "", *, path: str = "", states: list[WidgetState] | None = None) -> bytes:
        """A request for a run with everything that was moved so far, and `states` for this run only."""
        message = BackMsg()
        ask = message.rerun_script
        ask.query_string, ask.page_script_hash, ask.page_name = self.query, self.page, path
        ask.fragment_id = fragment
        ask.widget_states.widgets.extend([*self.states.values(), *(states or [])])
        ask.cached_message_hashes.extend(self.cached)
        return bytes(message.SerializeToString())

    def take(self, raw: bytes) -> bool:
        """Take one message from the server; True when it ends the run. PageError where one is shown."""
        message = ForwardMsg.FromString(raw)
        if message.WhichOneof("type") == "ref_hash":  # the same as one that was kept
            _, message = self.cached[message.ref_hash]
        if message.metadata.cacheable:
            self.cached[message.hash] = (self.runs, message)
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.page = message.new_session.page_script_hash
            self.session = message.new_session.initialize.session_id
        elif kind == "navigation":
            self.page = message.navigation.page_script_hash
            self.pages = {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._look_at(message.delta.new_element, message.delta.fragment_id)
        elif kind == "script_finished" and message.script_finished in OVER:
            self.runs += 1
            self.cached = {
                name: kept for name, kept in self.cached.items() if self.runs - kept[0] <= KEPT_RUNS
            }
            return True
        elif kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
            raise PageError("the page could not be run")
        return False

    def _look_at(self, element: Any, fragment: str) -> None:
        kind = element.WhichOneof("type")
        part = getattr(element, kind)
        if kind == "exception" or (kind == "alert" and "went wrong" in part.body):
            raise PageError(f"the page shows an error: {getattr(part, 'message', '') or part.body}")
        if kind == "text":
            self.text = part.body
        found = re.match(r"\$\$ID-[0-9a-f]+-(.+)$", str(getattr(part, "id", "")))
        if not found or found[1] == "None":
            return
        self.ids[found[1]], self.fragments[part.id] = part.id, fragment
        if getattr(part, "set_value", False):
            self.states.pop(part.id, None)  # the server moved it
        if kind == "bidi_component" and found[1] == BOARD:
            self.board = json.loads(part.bytes)

    def slide(self, key: str, value: float) -> str:
        """Move a slider; the fragment that has to run."""
        return self._set(WidgetState(id=self.ids[key]), "double_array_value", value)

    def choose(self, key: str, label: str) -> str:
        """Choose in a list by what stands on the screen."""
        return self._set(WidgetState(id=self.ids[key]), "string_value", label)

    def operate(self, *operations: list[Any]) -> str:
        """Tell operations of the board, numbered on from the last that was taken."""
        numbered = [[self.board["ack"] + k, *op] for k, op in enumerate(operations, start=1)]
        told = json.dumps({"ops": {"session": self.board["session"], "ops": numbered}})
        return self._set(WidgetState(id=self.ids[BOARD]), "json_value", told)

    def _set(self, state: WidgetState, kind: str, value: Any) -> str:
        if kind == "double_array_value":
            state.double_array_value.data[:] = [float(value)]
        else:
            setattr(state, kind, value)
        self.states[state.id] = state
        return self.fragments[state.id]

    def painted(self) -> tuple[str, list[WidgetState]]:
        """What the board tells when it has been painted and there is more to draw: fragment and trigger."""
        board = self.ids[BOARD]
        told = json.dumps([{"event": "drawn", "value": self.board["ack"]}])
        trigger = WidgetState(id=f"$$STREAMLIT_INTERNAL_KEY_{board}__events", json_trigger_value=told)
        return self.fragments[board], [trigger]
