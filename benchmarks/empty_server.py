"""The empty page, served exactly as the real app: `uvicorn empty_server:app`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from attention_ui import serving

app = st.App(
    Path(__file__).with_name("empty_app.py"), lifespan=serving.lifespan, middleware=serving.middleware()
)
