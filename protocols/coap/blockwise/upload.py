"""Bodies of requests: in one message, or in Block1 blocks (RFC 7959)."""

from __future__ import annotations

from typing import Final

from protocols.coap.blockwise import blockwise
from protocols.coap.blockwise.blockwise import Assemblies
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.message import message, option
from protocols.coap.message.option import Fault
from protocols.coap.pubsub.representation import ROOT
from protocols.coap.resources import translate
from protocols.coap.responses import Responses

_WITH_BODY: Final = (message.POST, message.PUT, message.FETCH, message.IPATCH)


def assemble(assemblies: Assemblies, outcomes: Responses, exchange: Exchange, payload: bytes, now: int) -> bytes | None:
    """Whole body of a request; `payload` may be one block of it (RFC 7959 section 2.5).

    None when the request is answered: with 2.31 when more blocks must follow, with an error when the body is refused and
    dropped. All blocks of a body have the same peer, method, Uri-Host, Uri-Port, path, queries, Request-Tag, Content-Format,
    Accept, If-Match and If-None-Match (RFC 7959 section 2.3, RFC 9175 section 3.3). Sets `exchange.block1` to the
    option that the response repeats.
    """
    body_max = outcomes.config.block1_bytes_max
    if exchange.options.block1 == option.ABSENT or exchange.code not in _WITH_BODY:
        if len(payload) <= body_max:
            return payload
        outcomes.fault(exchange, Fault(message.TOO_LARGE, f"at most {body_max} bytes"), now)
        return None
    whole = _add(assemblies, body_max, exchange, payload, now)
    if isinstance(whole, Fault):
        outcomes.fault(exchange, whole, now)
        return None
    if whole is None:
        outcomes.responder.reply(exchange, message.CONTINUE, [], b"", now)
    return whole


def _add(assemblies: Assemblies, body_max: int, exchange: Exchange, payload: bytes, now: int) -> bytes | Fault | None:
    """Add one block. Returns the whole body after the last block, None before it, or the Fault that refuses the body."""
    options = exchange.options
    number = options.block1 >> 4
    more = bool(options.block1 & 8)
    exponent = options.block1 & 7
    bert = exponent == blockwise.BERT_EXPONENT and exchange.remote.bert
    start = blockwise.start_of(number, exponent)
    exchange.block1 = options.block1
    plan = None if options.path[:1] == [ROOT] else translate.publication(options)
    fault: Fault | None = plan if isinstance(plan, Fault) else None
    if fault is not None:
        exchange.block1 = option.ABSENT
    elif exponent == blockwise.BERT_EXPONENT and not bert:
        exchange.block1 = option.ABSENT
        fault = Fault(message.BAD_REQUEST, "Block1 with size exponent 7")
    elif not _is_block(len(payload), exponent, more):
        fault = Fault(message.BAD_REQUEST, "the payload is not one block")
    elif start + len(payload) > body_max or options.size1 > body_max:
        fault = Fault(message.TOO_LARGE, f"at most {body_max} bytes")
    key = (
        exchange.owner, exchange.code, options.host, options.port, tuple(options.path), tuple(options.query),
        tuple(options.request_tag), options.content_format, options.accept, tuple(options.if_match), options.if_none_match,
    )  # fmt: skip
    if fault is not None:
        assemblies.drop(key)
    else:
        if not number:
            texts = [*options.path, *options.query, *options.request_tag, *options.if_match]
            if options.host:
                texts.append(options.host)
            key_bytes = sum([len(text) for text in texts]) + blockwise.KEY_PART_BYTES * len(texts)
            assemblies.begin(key, key_bytes, exchange.remote.key, exchange.remote.network, now)
        if not assemblies.add(key, start, payload):
            fault = Fault(message.REQUEST_INCOMPLETE, "a block is missing: begin again")
    if fault is not None:
        return fault
    return None if more else assemblies.finish(key)


def _is_block(size: int, exponent: int, more: bool) -> bool:
    """True when a payload of `size` bytes agrees with the Block1 option: one block, or several with BERT."""
    if exponent == blockwise.BERT_EXPONENT:
        return not more or (size > 0 and size % blockwise.BLOCK_BYTES_MAX == 0)
    block = 1 << (exponent + 4)
    return size == block if more else size <= block
