"""The JSON dialect that Java's fastjson writes (RemotingSerializable)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.remoting.wire import fastjson


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"brokerAddrs":{0:"h:p",1:"i:q"}}', {"brokerAddrs": {"0": "h:p", "1": "i:q"}}),
        (b'{"offsetTable":{"T@g":{0:5,},},}', {"offsetTable": {"T@g": {"0": 5}}}),
        (b"{'a':'b\\'c'}", {"a": "b'c"}),
        (b"{a:[1,-2,3.5,1e3,true,false,null,]}", {"a": [1, -2, 3.5, 1000.0, True, False, None]}),
        (b'{{"queueId":0}:5}', {'{"queueId":0}': 5}),
        (b'{0:"\\u0041\\n"}', {"0": "A\n"}),
        (b'  {"a":1}  ', {"a": 1}),
    ],
)
def test_what_fastjson_writes_is_read(text: bytes, value: object) -> None:
    assert fastjson.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"{0:", b"{0:1", b"{0:1 2}", b"[0:1]", b"{a:'}", b"{a:'\\u12'}", b"{a:b}", b"\xff", b"{0:1}x",
        b"[" * 40 + b"0:",
    ],
)  # fmt: skip
def test_text_outside_the_dialect_is_refused(text: bytes) -> None:
    with pytest.raises(fastjson.DialectError):
        fastjson.loads(text)


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for text in (data, b"{0:" + data, b"{'a':'" + data, b"{" * 20 + data):
        try:
            fastjson.loads(text)
        except fastjson.DialectError:
            continue


def test_a_map_keyed_by_queues_is_written_with_raw_objects() -> None:
    made = fastjson.keyed([(fastjson.queue("b-a", "T", 0), 5), (fastjson.queue("b-a", "T", 1), {"x": 1})])
    assert made == (b'{{"brokerName":"b-a","queueId":0,"topic":"T"}:5,{"brokerName":"b-a","queueId":1,"topic":"T"}:{"x":1}}')
