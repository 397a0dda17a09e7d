"""Content-Format numbers (IANA CoRE Parameters) and their media types."""

from __future__ import annotations

from typing import Final

from protocols.coap.message.option import ABSENT

OCTET_STREAM: Final = 42
LINK_FORMAT: Final = 40
CBOR: Final = 60
UNREGISTERED: Final = "application/octet-stream; coap-content-format="

TYPES: Final[dict[int, str]] = {
    0: "text/plain; charset=utf-8",
    40: "application/link-format",
    41: "application/xml",
    42: "application/octet-stream",
    47: "application/exi",
    50: "application/json",
    51: "application/json-patch+json",
    52: "application/merge-patch+json",
    60: "application/cbor",
    61: "application/cwt",
    62: "application/multipart-core",
    63: "application/cbor-seq",
    110: "application/senml+json",
    111: "application/sensml+json",
    112: "application/senml+cbor",
    113: "application/sensml+cbor",
    114: "application/senml-exi",
    115: "application/sensml-exi",
    140: "application/yang-data+cbor; id=sid",
    256: "application/coap-group+json",
    310: "application/senml+xml",
    311: "application/sensml+xml",
    320: "application/senml-etch+json",
    322: "application/senml-etch+cbor",
    340: "application/yang-data+cbor",
    432: "application/td+json",
    606: "application/core-pubsub+cbor",
    10000: "application/vnd.ocf+cbor",
    11542: "application/vnd.oma.lwm2m+tlv",
    11543: "application/vnd.oma.lwm2m+json",
    11544: "application/vnd.oma.lwm2m+cbor",
    20000: "text/css",
    30000: "image/svg+xml",
}
_PARAMETERLESS: Final[dict[str, int]] = {text: number for number, text in TYPES.items() if ";" not in text}
_WHOLE: Final[dict[str, int]] = {text.replace(" ", ""): number for number, text in TYPES.items()}


def content_type(number: int) -> str:
    """Media type of a Content-Format; a number outside the table becomes a parameter of the media type."""
    known = TYPES.get(number)
    return known if known is not None else f"{UNREGISTERED}{number}"


def content_format(text: str) -> int:
    """Content-Format of a media type, ABSENT without one. `charset=utf-8` is ignored."""
    if text.startswith(UNREGISTERED):
        digits = text[len(UNREGISTERED) :]
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else ABSENT
    squeezed = text.replace(" ", "").lower()
    whole = _WHOLE.get(squeezed)
    if whole is not None:
        return whole
    kind, _, parameters = squeezed.partition(";")
    if parameters not in ("", "charset=utf-8", 'charset="utf-8"'):
        return ABSENT
    return 0 if kind == "text/plain" else _PARAMETERLESS.get(kind, ABSENT)
