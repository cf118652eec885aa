"""The empty page, served as the real app, on Streamlit as it is: `uvicorn empty_server:app`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attention_ui import serving

app = st.App(
    Path(__file__).with_name("empty_app.py"), lifespan=serving.bare_lifespan, middleware=serving.middleware()
)
