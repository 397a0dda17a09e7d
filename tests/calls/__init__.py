"""A store behind a link: its ports as calls that come late, in another order, twice or never. Use cases have to work so.

A frame carries the calls, or the answers, of one turn of the event loop. Gateways do not use it: they forward commands.
docs/decisions/0089-calls-are-a-test.md
"""
