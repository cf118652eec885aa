"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import settings
from streamlit.components.v2 import manifest_scanner

from benchmarks.common import APP, Server

# AppTest looks through every installed package for components each time that a page is opened: 0.3 s, and
# they do not change while tests run.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)

# a busy machine is no fault: how long an example takes is not tested
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The app, really started, for the tests of one file."""
    started = Server(APP)
    yield started
    started.stop()
