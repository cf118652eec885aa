"""The floor app on Streamlit as it comes, without anything that this app adds: `uvicorn bare_server:app`."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

app = st.App(Path(__file__).with_name("floor_app.py"))
