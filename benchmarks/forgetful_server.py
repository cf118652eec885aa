"""The app, but it does not keep the session of a tab that is gone for long: `uvicorn forgetful_server:app`.

So what a reader leaves behind can be looked for within a short run.
"""

from __future__ import annotations

from common import KEPT
from streamlit import config

config.get_config_options()
config.set_option("server.disconnectedSessionTTL", KEPT)

from app import app  # noqa: E402

__all__ = ["app"]
