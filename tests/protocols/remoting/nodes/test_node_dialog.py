"""The greeting of a node, frames behind it, and what ends the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from domain.errors import GatewayError
from domain.refusal import TLS_ONLY
from protocols.remoting import codes
from protocols.remoting.codes import GREET_NODE, NODE_FRAME
from protocols.remoting.nodes.calls.octets import WireError
from protocols.remoting.nodes.node_dialog import DialogError, NodeDialog
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import FLAG_ONEWAY, FLAG_RESPONSE

WELCOME = b"welcome"


class Speaker:
    """Notes what it is told; `foreign`: the other node is of another cluster."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.foreign = False
        self.losses = 0
        self.send: Callable[[bytes], None] | None = None

    def greeting(self) -> bytes:
        return b"hello"

    def greeted(self, body: bytes) -> None:
        if self.foreign:
            raise WireError("the store is of cluster Other")
        self.heard.append(body)

    def connected(self, send: Callable[[bytes], None]) -> None:
        self.send = send

    def received(self, body: bytes) -> None:
        self.heard.append(body)

    def doubt(self) -> str:
        return ""

    def lost(self) -> None:
        self.losses += 1


class Scene:
    """A dialog, and the frames that it has written."""

    def __init__(self, sign: Callable[[Mapping[str, str], bytes], dict[str, str]] | None = None) -> None:
        self.speaker = Speaker()
        self._decoder = FrameDecoder()
        self.written: list[Frame] = []
        self.dialog = NodeDialog(self.speaker, sign, lambda data: self.written.extend(self._decoder.feed(data)))
        self.dialog.open()

    def answer(self, code: int = codes.SUCCESS, body: bytes = WELCOME, remark: str = "") -> None:
        self.dialog.receive(encode(code, self.written[0].opaque, body=body, flag=FLAG_RESPONSE, remark=remark))

    def frame(self, body: bytes, code: int = NODE_FRAME) -> None:
        self.dialog.receive(encode(code, 5, body=body, flag=FLAG_ONEWAY))


def test_a_greeting_and_its_answer_come_before_all_frames() -> None:
    scene = Scene()
    (hello,) = scene.written
    assert (hello.code, hello.body, hello.flag) == (GREET_NODE, b"hello", 0)
    assert not scene.dialog.greeted
    scene.answer()
    assert scene.dialog.greeted
    scene.frame(b"events")
    assert scene.speaker.heard == [WELCOME, b"events"]
    assert scene.speaker.send is not None
    scene.speaker.send(b"commands")
    assert (scene.written[1].code, scene.written[1].body, scene.written[1].flag) == (NODE_FRAME, b"commands", FLAG_ONEWAY)


def test_bytes_come_in_any_pieces() -> None:
    scene = Scene()
    data = encode(codes.SUCCESS, scene.written[0].opaque, body=WELCOME, flag=FLAG_RESPONSE)
    data += encode(NODE_FRAME, 9, body=b"events", flag=FLAG_ONEWAY)
    for at in range(len(data)):
        scene.dialog.receive(data[at : at + 1])
    assert scene.speaker.heard == [WELCOME, b"events"]


def test_requests_are_signed_and_frames_are_not() -> None:
    scene = Scene(lambda fields, body: {**fields, "AccessKey": "gate", "Signature": body.hex()})
    assert scene.written[0].fields() == {"AccessKey": "gate", "Signature": b"hello".hex()}
    scene.answer()
    scene.dialog.ping()
    assert (scene.written[1].fields() or {})["AccessKey"] == "gate"
    assert scene.speaker.send is not None
    scene.speaker.send(b"commands")
    assert not scene.written[2].fields()


@pytest.mark.parametrize(
    ("code", "remark", "said"),
    [
        (codes.NOT_SUPPORTED, "", "start a node of this version there"),
        (codes.NO_PERMISSION, "check signature failed.", "check signature failed.*access_key_file"),
        (codes.NO_PERMISSION, TLS_ONLY, "takes TLS only.*store_ca"),
        (codes.SYSTEM_ERROR, "broken", "code 1: broken"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, remark: str, said: str) -> None:
    scene = Scene()
    with pytest.raises(DialogError, match=said):
        scene.answer(code, remark=remark)
    scene.dialog.end()
    assert scene.speaker.losses == 0, "it was never connected"


def test_another_cluster_and_nonsense_end_the_connection() -> None:
    foreign = Scene()
    foreign.speaker.foreign = True
    with pytest.raises(GatewayError, match="cluster Other"):
        foreign.answer()
    for data in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 64, encode(codes.SEND, 1, body=b"x")):
        with pytest.raises(DialogError):
            Scene().dialog.receive(data)
    early = Scene()
    with pytest.raises(DialogError):
        early.frame(b"before the greeting is answered")
    assert early.speaker.heard == []


def test_an_ended_dialog_tells_its_speaker_once_and_writes_nothing() -> None:
    scene = Scene()
    scene.answer()
    scene.dialog.end()
    scene.dialog.end()
    assert scene.speaker.losses == 1
    assert scene.speaker.send is not None
    scene.speaker.send(b"late")
    assert len(scene.written) == 1


def test_the_answer_to_a_ping_is_no_frame() -> None:
    scene = Scene()
    scene.answer()
    scene.dialog.ping()
    assert scene.written[1].code == codes.CHECK_CLIENT
    scene.dialog.receive(encode(codes.NOT_SUPPORTED, scene.written[1].opaque, flag=FLAG_RESPONSE))
    assert scene.speaker.heard == [WELCOME]
