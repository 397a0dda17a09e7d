"""A station that posts its readings over CoAP, each in a confirmable message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiocoap

from examples.weather.reading import Reading


async def _post(host: str, port: int, readings: Sequence[Reading]) -> None:
    context = await aiocoap.Context.create_client_context()
    try:
        for reading in readings:
            uri = f"coap://{host}:{port}/mq/{reading.path()}"
            request = aiocoap.Message(code=aiocoap.POST, uri=uri, payload=reading.body())
            response = await context.request(request).response
            if not response.code.is_successful():
                raise ConnectionError(f"{uri}: {response.code} {response.payload.decode(errors='replace')}")
    finally:
        await context.shutdown()


def post(host: str, port: int, readings: Sequence[Reading]) -> None:
    """Post all readings; the node has stored each when this returns."""
    asyncio.run(_post(host, port, readings))
