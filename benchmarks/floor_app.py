"""The floor: the least an app can do, one slider and one text. What it costs, Streamlit costs."""

from __future__ import annotations

import streamlit as st

n = st.slider("n", 1, 8, key="n")
st.text(f"n is {n}")
