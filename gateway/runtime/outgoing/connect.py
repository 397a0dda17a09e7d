"""The attempt to connect to another server, which ends in a bounded time, and how TLS is used for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TypeVar

from domain.errors import ConfigError

Made = TypeVar("Made", bound=asyncio.BaseProtocol)


async def connect(
    make: Callable[[], Made],
    host: str,
    port: int,
    tls: Callable[[], ssl.SSLContext | None],
    setting: str,
    within_s: float,
) -> Made | str:
    """Connect. Returns what uses the connection, or why there is none.

    make      makes what uses the connection, once there is one
    tls       reads the files for it, and returns how it uses TLS, if it does; raises ConfigError
    setting   the one that names the authorities of the server's certificate, as in `store.ca`
    within_s  seconds that it may take, name look-up and TLS included
    """
    try:
        context = tls()
        name = host if context is not None else None
        connecting = asyncio.get_running_loop().create_connection(make, host, port, ssl=context, server_hostname=name)
        _, made = await asyncio.wait_for(connecting, within_s)
    except TimeoutError:
        return f"no connection within {within_s:g} s"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not valid here ({error.verify_message}): see {setting}"
    except ConfigError as error:
        return str(error)
    except OSError as error:
        return f"no connection ({error.strerror or error})"
    except ValueError as error:  # of the codec of host names
        return f"its host name cannot be looked up ({error})"
    return made


def trusting(authorities: str, setting: str) -> ssl.SSLContext | None:
    """TLS 1.2 or later with servers whose certificates are of `authorities`, a file; "": no TLS.

    `setting` is the one that names the file. Raises ConfigError when the file cannot be used.
    """
    if not authorities:
        return None
    try:
        context = ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{setting} {authorities} cannot be used: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
