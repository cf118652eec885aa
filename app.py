"""The door to the app: `streamlit run app.py`, `uvicorn app:app` and `python app.py` all come in here.

A server imports this file and finds `app`. For every reader and every change its script runner
then runs the file again, as `__main__`, and gets the page.
"""

from __future__ import annotations

import streamlit as st

if __name__ == "__main__" and st.runtime.exists():
    from attention_ui import frame

    frame.run()
else:
    from attention_ui import serving

    app = st.App(
        __file__,
        lifespan=serving.lifespan,
        routes=serving.routes(),
        middleware=serving.middleware(),
        on_script_error=serving.say_sorry,
    )
    if __name__ == "__main__":
        app.run()
