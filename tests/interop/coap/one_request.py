"""One request of aiocoap, by a client of its own."""

from __future__ import annotations

import asyncio
from typing import Final

import aiocoap

from tests.interop.node import Ports

ANSWER_S: Final = 60.0


def coap_request(node: Ports, code: aiocoap.Code, path: str, payload: bytes = b"", **options: object) -> aiocoap.Message:
    """The response to a confirmable request. Raises TimeoutError after ANSWER_S."""

    async def ask() -> aiocoap.Message:
        context = await aiocoap.Context.create_client_context()
        try:
            uri = f"coap://127.0.0.1:{node.port('coap')}{path}"
            asked = context.request(aiocoap.Message(code=code, payload=payload, uri=uri, **options))
            return await asyncio.wait_for(asked.response, ANSWER_S)
        finally:
            await context.shutdown()

    return asyncio.run(ask())
