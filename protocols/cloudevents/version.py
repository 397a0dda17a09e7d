"""Events of CloudEvents 0.3, whose attributes become those of 1.0: an event is stored, and goes out, as 1.0 alone."""

from __future__ import annotations

from typing import Final

from protocols.cloudevents.event import SPECVERSION, CloudEventError, is_absolute_uri

OLDER: Final = b"0.3"
_NOT_OLDER: Final = ("data_base64", "dataschema")
"""Members that 1.0 brought."""


def upgrade(attributes: dict[bytes, bytes]) -> None:
    """Change the attributes of an event of 0.3 in binary mode. Those of another version stay.

    `schemaurl` becomes `dataschema` when it is an absolute URI, as 1.0 has it; a relative one stays an extension attribute.
    `datacontentencoding` is dropped: it is about data inside of a JSON text (0.3, datacontentencoding).
    """
    if attributes.get(b"specversion") != OLDER:
        return
    attributes[b"specversion"] = SPECVERSION
    attributes.pop(b"datacontentencoding", None)
    schema = attributes.get(b"schemaurl")
    if schema is not None and is_absolute_uri(schema):
        attributes[b"dataschema"] = attributes.pop(b"schemaurl")


def upgrade_members(found: dict[str, bytes]) -> None:
    """Change the members of a JSON event of 0.3, whose values are raw JSON. Those of another version stay.

    As `upgrade`; a string `data` whose `datacontentencoding` is base64 becomes `data_base64`. Raises CloudEventError for
    another encoding, and for members of 1.0.
    """
    if found.get("specversion") != b'"0.3"':
        return
    for name in _NOT_OLDER:
        if name in found:
            raise CloudEventError(name, f"an event of 0.3 has no member {name!r}")
    found["specversion"] = b'"1.0"'
    schema = found.get("schemaurl", b"")
    if is_absolute_uri(schema[1:-1]):
        found["dataschema"] = found.pop("schemaurl")
    encoding = found.pop("datacontentencoding", b"null")
    if encoding != b"null" and found.get("data", b"")[:1] == b'"':
        if encoding.lower() != b'"base64"':
            raise CloudEventError("datacontentencoding", "datacontentencoding must be base64")
        found["data_base64"] = found.pop("data")
