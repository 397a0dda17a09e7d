"""CoAP with aiocoap: put a value, get it, and observe the next: `python -m examples.coap_sensor [host:port]`."""

from __future__ import annotations

import asyncio
import sys

import aiocoap


async def run(address: str) -> None:
    """PUT keeps the value, as MQTT's retain does; POST would only append it."""
    uri = f"coap://{address}/mq/home/cellar/humidity"
    context = await aiocoap.Context.create_client_context()
    try:
        answer = await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=b"61")).response_raising
        print(f"PUT {answer.code}")
        value = await context.request(aiocoap.Message(code=aiocoap.GET, uri=uri)).response_raising
        print(f"GET {value.payload.decode()}")
        observation = context.request(aiocoap.Message(code=aiocoap.GET, uri=uri, observe=0))
        await observation.response_raising
        await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=b"64")).response_raising
        async with asyncio.timeout(10):
            async for notification in observation.observation:
                print(f"observed {notification.payload.decode()}")
                if notification.payload == b"64":
                    break
    finally:
        await context.shutdown()


def main(address: str = "127.0.0.1:5683") -> None:
    """Run it to its end."""
    asyncio.run(run(address))


if __name__ == "__main__":
    main(*sys.argv[1:])
