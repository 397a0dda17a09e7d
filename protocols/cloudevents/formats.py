"""Every event format by its content mode, for the content of a request, a message or an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protocols.cloudevents import avro, json, protobuf
from protocols.cloudevents.event import CloudEvent, CloudEventError
from protocols.cloudevents.http import (
    BATCH,
    BATCH_PROTOBUF,
    PROTOBUF,
    PROTOBUFS,
    STRUCTURED_AVRO,
    STRUCTURED_PROTOBUF,
)


def is_batch(mode: int) -> bool:
    """True for the mode of several events."""
    return mode in (BATCH, BATCH_PROTOBUF)


def decode(mode: int, content: bytes, older: bool = False) -> CloudEvent:
    """One event in a structured mode. `older`: 0.3 is accepted, which only JSON has. Raises CloudEventError."""
    if mode == STRUCTURED_PROTOBUF:
        return protobuf.decode(content)
    if mode == STRUCTURED_AVRO:
        return avro.decode(content)
    return json.decode(content, older)


def elements(mode: int, content: bytes, most: int, found: list[bytes]) -> Iterator[None]:
    """Append the raw events of a batch to `found`; yields where a slice of the work ends. Raises CloudEventError."""
    if mode == BATCH_PROTOBUF:
        return protobuf.elements(content, most, found)
    return json.elements(content, most, found)


def decode_element(mode: int, element: bytes, older: bool = False) -> CloudEvent | CloudEventError:
    """One raw event of a batch -> the event, or the CloudEventError with the reason."""
    try:
        return protobuf.decode(element) if mode == BATCH_PROTOBUF else json.decode(element, older)
    except CloudEventError as error:
        return error


def join(media_type: bytes, encoded: Sequence[bytes]) -> bytes:
    """Encoded events -> a batch. `media_type`: BATCH_JSON or PROTOBUFS."""
    return protobuf.join(encoded) if media_type == PROTOBUFS else b"[" + b",".join(encoded) + b"]"


def encode(media_type: bytes, event: CloudEvent) -> bytes:
    """One event in the format of a media type of `http.MODES` that is no batch."""
    if media_type == PROTOBUF:
        return protobuf.encode(event)
    return avro.encode(event) if media_type.endswith(b"avro") else json.encode(event)
