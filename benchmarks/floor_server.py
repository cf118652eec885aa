"""The floor app, served as the real one but for attention_ui.quicker: `uvicorn floor_server:app`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attention_ui import serving

app = st.App(
    Path(__file__).with_name("floor_app.py"),
    lifespan=serving.bare_lifespan,
    routes=serving.routes(),
    middleware=serving.middleware(),
)
