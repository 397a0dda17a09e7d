"""No peer makes others wait: by nothing that it sends or leaves unsent, on any port.

Each test lets one peer of a whole node misbehave (`node.SharedNode`) while a neighbour of every protocol asks and waits
(`asker`). What is bounded are counts, never the wall clock: calls, commands and bytes of one turn of the loop, the bytes by
which the process grows, and the turns that a neighbour waits. `python -m benchmarks.neighbours` measures the same in time.
"""
