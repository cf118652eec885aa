"""An empty page: what Streamlit itself loads, every page loads."""

from __future__ import annotations

import streamlit as st

st.text("ready")
