"""The screen: what a reader sees and touches. Numbers come from attention_core and are only shown here."""

from __future__ import annotations

import os

# NumPy's products would be shared out among threads that wait for one another, busily: where a browser or
# other readers need the cores, too, one edit took three times as long. Read when NumPy is loaded, after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
