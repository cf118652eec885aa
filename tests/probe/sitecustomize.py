"""Looks inside a server under test: Python runs this first in any process with this folder on PYTHONPATH.

On SIGUSR1 the process writes to the file named by PROBE what it has counted and found so far.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

LOCAL = ("localhost", "127.0.0.1", "0.0.0.0", "::", "::1", "", None)
full_collections = 0
asked_outside = []


def count(phase, info):
    global full_collections
    full_collections += phase == "stop" and info["generation"] == 2


def listen(event, arguments):
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in LOCAL:
        asked_outside.append(host)


def connections():
    """TCP_NODELAY of every connection that this process has accepted or made."""
    for fd in os.listdir("/dev/fd"):
        try:
            with socket.socket(fileno=os.dup(int(fd))) as end:
                if end.type == socket.SOCK_STREAM and end.family != socket.AF_UNIX and end.getpeername():
                    yield bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        except OSError:  # not a socket, or not connected
            continue


def rest():
    """Seconds that the loop which sends messages rests after a round, if it still reads them by this name."""
    module = sys.modules["streamlit.runtime.runtime"]
    name = "MESSAGE_FLUSH_INTERVAL_SECS"
    return getattr(module, name) if name in module.Runtime._loop_coroutine.__code__.co_names else None


def replaced():
    """What of Streamlit's own another module has taken the place of."""
    sessions = sys.modules["streamlit.runtime.app_session"]
    for what in (sessions._populate_theme_msg, sessions.AppSession._call_soon_on_event_loop):
        if what.__module__ != sessions.__name__:
            yield what.__module__


def tell(*_):
    found = {
        "full_collections": full_collections,
        "frozen": gc.get_freeze_count(),
        "thresholds": gc.get_threshold(),
        "nodelay": list(connections()),
        "asked_outside": asked_outside,
        "rest": rest(),
        "replaced": sorted(replaced()),
    }
    path = os.environ["PROBE"]
    with open(path + ".part", "w") as file:
        json.dump(found, file)
    os.replace(path + ".part", path)


if "PROBE" in os.environ:
    gc.callbacks.append(count)
    sys.addaudithook(listen)
    signal.signal(signal.SIGUSR1, tell)
