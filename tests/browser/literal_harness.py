"""Every kind of place that shows a token, with tokens that look like somebody's language."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import streamlit as st

from attention_core.attention import attention
from attention_ui import figures, tables
from attention_ui.tokens import latex_text, literal, markdown_text

tokens = json.loads(Path(__file__).with_name("tokens.json").read_text(encoding="utf-8"))
shown = tuple(map(literal, tokens))
few = shown[:16]  # a figure with numbers has room for no more
random = np.random.default_rng(0)
trace = attention(*random.normal(size=(3, 16, 2)), mask=np.tri(16, dtype=bool))
labels = {"query": few, "key": few}

figure = figures.heat_maps(trace.sheet, trace.values, labels)
st.plotly_chart(figure, theme=None, config=figures.CONFIG, key="figure", alt="heat maps")
st.html(tables.to_html(trace.sheet, trace.values, labels, "weights"))
for label in shown:
    st.markdown(f"A token: {markdown_text(label)}")
    st.latex(rf"\text{{{latex_text(label)}}}")
st.text("all shown")
