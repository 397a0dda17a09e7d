"""Shares of one turn of the event loop, by the kind of work (docs/decisions/0023-turns-are-shared.md).

All connections and the store share one loop: all clients wait while one kind of work takes its share of a turn. Each kind takes
that, and the one step that exceeds it.
"""

from __future__ import annotations

from typing import Final

from domain.limits import MILLISECOND_NS

RECEIVED_NS: Final = 6 * MILLISECOND_NS
"""Time in which received bytes are handled, and slices of large requests: passed deadlines are handled as bytes are."""
SEARCHES_NS: Final = 4 * MILLISECOND_NS
"""Time for calls that look through a backlog with a filter."""
QUESTIONS_NS: Final = MILLISECOND_NS
"""Time for questions about all topics, groups or queues."""
WALKS_NS: Final = 2 * MILLISECOND_NS
"""Time for work on each of many clients, members or sessions (`domain.walk`)."""
READ_BYTES: Final = 512 * 1024
"""Bytes of messages that are read for answers. The read that reaches it may have 4 MiB more."""
STORE_TASK_NS: Final = 2 * MILLISECOND_NS
"""Time for each task of the store that runs in steps."""
STORE_TASK_COST: Final = 4_096
"""Cost of the steps of such a task, in rows read or items visited: about a millisecond. STORE_TASK_NS ends the task's turn even
below it, since memory outside the processor's caches is slower."""
LATER_COMMANDS: Final = 192
"""Commands of one CoAP endpoint or connection that events have caused: three for each datagram of a turn. Some 5 us each."""
