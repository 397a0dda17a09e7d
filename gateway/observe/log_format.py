"""The process's own log: lines for people, or one JSON object a line."""

from __future__ import annotations

import logging
import sys
from typing import Final

TEXT: Final = "text"
JSON: Final = "json"
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FIELDS: Final = {"asctime": "time", "levelname": "level", "name": "logger"}


def configure(level: str, form: str) -> None:
    """Log to standard error from `level` on. `form`: TEXT, or JSON with the fields time, level, logger, message.

    Lines about a file also have `event`, `file`, `cause` and `remedy` in the form JSON.
    """
    handler = logging.StreamHandler(sys.stderr)
    if form == JSON:
        from pythonjsonlogger.json import JsonFormatter

        handler.setFormatter(JsonFormatter(_LINE, rename_fields=_FIELDS))
    else:
        handler.setFormatter(logging.Formatter(_LINE))
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
