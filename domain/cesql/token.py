"""Tokens of a CESQL expression (CESQL 1.0, section 2.3)."""

from __future__ import annotations

import re
from typing import Final

from domain.lexicon import Lexicon

KEYWORDS: Final = frozenset({"AND", "EXISTS", "FALSE", "IN", "LIKE", "NOT", "OR", "TRUE", "XOR"})
_ESCAPED: Final = re.compile(r"""\\(["'])|""|''""")


def _unquoted(text: str) -> str:
    """Without quotes and escapes of quotes."""
    quote = text[0]
    return _ESCAPED.sub(lambda found: found.group(1) or (quote if found.group() == quote * 2 else found.group()), text[1:-1])


def _strange(expression: str, at: int) -> str:
    return "a string is not closed" if expression[at] in "\"'" else f"{expression[at]!a} is not part of CESQL"


# Possessive quantifiers only: no expression of a client can make the matcher backtrack.
CESQL: Final = Lexicon(
    r"[ \t\r\n]*+",
    r"""(?P<text>"(?:\\.|""|[^"\\])*+"|'(?:\\.|''|[^'\\])*+')"""
    r"|(?P<whole>[0-9]++(?![A-Za-z_]))"
    r"|(?P<name>[A-Za-z0-9_]++)"
    r"|(?P<sign>!=|<>|>=|<=|[=<>(),+*/%-])",
    KEYWORDS,
    _unquoted,
    _strange,
)
