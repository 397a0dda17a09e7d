"""Behaviour of MQTT 3.1.1 that an implementation of others confirms: each script is performed by our codec against our server,
by amqtt's client against our server, and by amqtt's client against amqtt's server.

Numbers are those of normative statements of MQTT 3.1.1 (OASIS).
"""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.dialogue import perform
from tests.conformance.peers import Pairing, amqtt, headgate, headgate_and_amqtt

MATCHES = [
    ("#", "$x/y", False), ("+/y", "$x/y", False), ("$x/#", "$x/y", True), ("$x/+", "$x/y", True), ("a", "A", False),
    ("a//b", "a//b", True), ("a/+/b", "a//b", True), ("a/#", "a", True), ("a/+", "a", False), ("a/+", "a/", True),
    ("/", "/", True), ("+/+", "/", True), ("a", "a/", False), ("\ufeff", "\ufeff", True), ("a b", "a b", True),
    ("\u00e9", "e\u0301", False), ("+", "/a", False), ("/+", "/a", True), ("#", "a/b/c", True), ("a/+/#", "a/b", True),
]  # fmt: skip

SCRIPTS = {
    "3.1.2-4 to -6, 3.2.2-1 to -3: sessions are resumed or begun anew": """
        c connect kept > CONNACK 00
        c drop
        c connect kept > CONNACK 00 present
        c drop
        c connect > CONNACK 00
        c drop
        c connect kept > CONNACK 00
    """,
    "3.1.2-4: subscriptions belong to the session": """
        c connect kept
        c subscribe t 1
        c leave
        c connect kept > CONNACK 00 present
        s connect
        s publish t 1 x
        c hears > PUBLISH t q1 x
    """,
    "3.1.2-5: what a session is owed waits for it": """
        c connect kept
        c subscribe t 1
        c drop
        s connect
        s publish t 1 one
        s publish t 1 two
        c connect kept > CONNACK 00 present, PUBLISH t q1 one, PUBLISH t q1 two
    """,
    "3.1.2-6: a clean session is owed nothing": """
        c connect
        c subscribe t 1
        c drop
        s connect
        s publish t 1 x
        c connect > CONNACK 00
    """,
    "3.1.4-2: a client that connects again ends its other connection": """
        c connect
        c/2 connect > CONNACK 00
        c hears > closed
        c/2 subscribe t 0 > SUBACK 00
    """,
    "3.1.4-2: so does one whose session is kept, and it goes on": """
        c connect kept
        c subscribe t 1
        c/2 connect kept > CONNACK 00 present
        c hears > closed
        s connect
        s publish t 1 x
        c/2 hears > PUBLISH t q1 x
    """,
    "3.1.2-8: a will is published": """
        w connect
        w subscribe will 1
        c connect will will 1 gone
        c drop
        w hears > PUBLISH will q1 gone
        late connect
        late subscribe will 1 > SUBACK 01
    """,
    "3.1.2-17: a will is retained if it says so": """
        c connect will will 1 retained gone
        c drop
        late connect
        late subscribe will 1 > SUBACK 01, PUBLISH will q1 retain gone
    """,
    "3.1.2-10, 3.14.4-3: a will is forgotten with DISCONNECT": """
        w connect
        w subscribe will 1
        c connect will will 1 gone
        c leave
    """,
    "3.3.1-5, -8: the newest retained message meets a new subscription": """
        s connect
        s publish t 1 retained old
        s publish t 1 retained new
        c connect
        c subscribe t 1 > SUBACK 01, PUBLISH t q1 retain new
    """,
    "3.3.1-9: an established subscription gets it as any other": """
        c connect
        c subscribe t 1
        s connect
        s publish t 1 retained x
        c hears > PUBLISH t q1 x
    """,
    "3.3.1-10, -11: a retained message without a body removes the one that is there": """
        s connect
        s publish t 1 retained x
        s publish t 1 retained ''
        c connect
        c subscribe t 1 > SUBACK 01
    """,
    "3.3.1-12: what is not retained leaves the retained one": """
        s connect
        s publish t 1 retained x
        s publish t 1 y
        c connect
        c subscribe t 1 > SUBACK 01, PUBLISH t q1 retain x
    """,
    "3.8.4-3: the same filter again sends the retained message again": """
        s connect
        s publish t 1 retained x
        c connect
        c subscribe t 1 > SUBACK 01, PUBLISH t q1 retain x
        c subscribe t 1 > SUBACK 01, PUBLISH t q1 retain x
    """,
    "3.8.4-3: a filter that is there is replaced": """
        c connect
        c subscribe t 2
        c subscribe t 0
        s connect
        s publish t 2 x
        c hears > PUBLISH t q0 x
    """,
    "3.8.4-4, -5, 3.9.3-1: a code for each filter, in order": """
        c connect
        c subscribe a 2 b 0 c/# 1 > SUBACK 02 00 01
    """,
    "3.10.4-1 to -3: what is unsubscribed is heard no more": """
        c connect
        c subscribe a 1 b 1
        c unsubscribe a > UNSUBACK
        s connect
        s publish a 1 x
        s publish b 1 y
        c hears > PUBLISH b q1 y
    """,
    "3.10.4-5: UNSUBACK also where there was no subscription": """
        c connect
        c unsubscribe a b > UNSUBACK
    """,
    "4.3.1 to 4.3.3: acknowledgements by QoS": """
        s connect
        s publish t 0 x > nothing
        s publish t 1 x > PUBACK
        s publish t 2 x > PUBREC, PUBCOMP
    """,
    "4.3.3-1: a delivery at QoS 2": """
        c connect
        c subscribe t 2
        s connect
        s publish t 2 x
        c hears > PUBLISH t q2 x, PUBREL
    """,
    "4.6.0-5, -6: a topic is in order": """
        c connect
        c subscribe t 1
        s connect
        s publish t 1 1
        s publish t 1 2
        s publish t 1 3
        s publish t 1 4
        c hears > PUBLISH t q1 1, PUBLISH t q1 2, PUBLISH t q1 3, PUBLISH t q1 4
    """,
    "3.3.5-1: a client hears itself": """
        c connect
        c subscribe t 0
        c publish t 0 x > PUBLISH t q0 x
    """,
    **{
        f"3.8.4-6: subscribed at QoS {asked}, published at {sent}": f"""
            c connect
            c subscribe t {asked}
            s connect
            s publish t {sent} x
            c hears > PUBLISH t q{min(asked, sent)} x{", PUBREL" if min(asked, sent) == 2 else ""}
        """
        for asked in range(3)
        for sent in range(3)
    },
    **{
        f"4.7: {pattern!r} {'fits' if fits else 'does not fit'} {topic!r}": f"""
            c connect
            c subscribe '{pattern}' 0
            s connect
            s publish '{topic}' 0 x
            c hears > {f"PUBLISH {topic} q0 x" if fits else "nothing"}
        """
        for pattern, topic, fits in MATCHES
    },
}

LOWER = "amqtt 0.12.1 delivers with the QoS of the subscription, also where the message was published with a lower one"
DOLLAR = (
    "amqtt 0.12.1 closes the connection of a client that publishes to a topic with a leading $; the standard leaves it open"
)
DEVIATIONS = {
    "3.1.2-4 to -6, 3.2.2-1 to -3: sessions are resumed or begun anew": (
        "amqtt 0.12.1 ends a clean session up to a second after its connection, and resumes it until then"
    ),
    "3.1.2-5: what a session is owed waits for it": "amqtt 0.12.1 sets RETAIN in messages that waited for an absent client",
    "3.1.4-2: a client that connects again ends its other connection": (
        "amqtt 0.12.1 forgets a clean session that is replaced, and leaves its connection open"
    ),
    "3.1.4-2: so does one whose session is kept, and it goes on": (
        "amqtt 0.12.1 takes the session for absent as soon as its former connection has ended"
    ),
    "3.8.4-3: a filter that is there is replaced": "amqtt 0.12.1 keeps the QoS of the first subscription",
    "3.8.4-6: subscribed at QoS 1, published at 0": LOWER,
    "3.8.4-6: subscribed at QoS 2, published at 0": LOWER,
    "3.8.4-6: subscribed at QoS 2, published at 1": LOWER,
    "4.7: '$x/#' fits '$x/y'": DOLLAR,
    "4.7: '$x/+' fits '$x/y'": DOLLAR,
}
"""Scripts that amqtt's server does not perform as they are written, and why. A script that it does perform must not be here."""


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("pairing", [headgate, headgate_and_amqtt, amqtt], ids=lambda pairing: pairing.__name__)
def test_a_script(pairing: Pairing, script: str) -> None:
    async def play(patience_s: float) -> None:
        async with pairing() as client:
            await perform(SCRIPTS[script], client, patience_s)

    if pairing is amqtt and script in DEVIATIONS:
        with pytest.raises((AssertionError, TimeoutError)):
            asyncio.run(play(0.5))
    else:
        asyncio.run(play(5.0))
