# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# distutils: libraries = nghttp2
"""HTTP/2 by libnghttp2: a thin binding that keeps the contract of protocols/http2/engine.py.

Callbacks of the library append events to one list per `receive`; response bodies stay Python bytes until the library asks
for a frame's worth. Pointers handed to the library are borrowed: a stream lives in `_streams` for as long as the library knows it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from protocols.http2 cimport nghttp2 as ng

from collections import deque


cdef enum:
    HEADERS = 1
    DATA = 2
    ENDED = 3
    RESET = 4
    FATAL = 5
    STREAM_WINDOW = 1048576
    CONNECTION_WINDOW = 8388608
    HEADER_LIST_MAX = 65536
    NV_STACK = 32
    ENABLE_CONNECT_PROTOCOL = 8  # RFC 8441, section 3

cdef ng.session_callbacks *CALLBACKS = NULL
cdef ng.option *OPTIONS = NULL

include "known_fields.pxi"
include "response_stream.pxi"


cdef class Session:
    """One connection. protocols/http2/engine.py has the contract."""

    cdef ng.session *_session
    cdef dict _streams
    cdef list _events
    cdef list _headers
    cdef size_t _header_bytes
    cdef KnownFields _known
    cdef char *_out
    cdef size_t _out_bytes
    cdef size_t _out_room
    cdef int32_t _newest    # the highest stream that the peer has opened
    cdef bint _goaway_sent
    cdef bint _dead
    cdef uint32_t _goaway_code
    cdef public Py_ssize_t held

    def __cinit__(self, int streams_max):
        cdef ng.settings_entry settings[4]
        self._streams = {}
        self._events = []
        self._headers = None
        self._out_room = 4096
        self._out = <char *> malloc(self._out_room)
        if self._out == NULL:
            raise MemoryError()
        if ng.session_server_new2(&self._session, CALLBACKS, <void *> self, OPTIONS) != 0:
            raise MemoryError()
        settings[0].settings_id = ng.SETTINGS_MAX_CONCURRENT_STREAMS
        settings[0].value = streams_max
        settings[1].settings_id = ng.SETTINGS_INITIAL_WINDOW_SIZE
        settings[1].value = STREAM_WINDOW
        settings[2].settings_id = ng.SETTINGS_MAX_HEADER_LIST_SIZE
        settings[2].value = HEADER_LIST_MAX
        settings[3].settings_id = ENABLE_CONNECT_PROTOCOL
        settings[3].value = 1
        ng.submit_settings(self._session, ng.FLAG_NONE, settings, 4)
        ng.session_set_local_window_size(self._session, ng.FLAG_NONE, 0, CONNECTION_WINDOW)

    def __dealloc__(self):
        if self._session != NULL:
            ng.session_del(self._session)
        if self._known.slots != NULL:
            forget_all(&self._known)
            free(self._known.slots)
        free(self._out)

    def receive(self, bytes data):
        """The next bytes of the peer -> events, in order."""
        cdef list events = self._events  # `outgoing` may have added that a stream ended
        cdef ssize_t rv
        if self._dead:
            return []
        rv = ng.session_mem_recv(
            self._session, <const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        if rv < 0:
            ng.session_terminate_session(self._session, ng.PROTOCOL_ERROR)
        # Control frames are ready now, and DATA that waited for a window. The library reports its own GOAWAY only by sending it.
        self._flush()
        if self._goaway_sent and not self._dead:
            self._dead = True
            events.append((FATAL, 0, self._goaway_code, True))
        elif ng.session_want_read(self._session) == 0 and ng.session_want_write(self._session) == 0:
            self._dead = True  # the peer has sent GOAWAY, and no stream is left
            events.append((FATAL, 0, ng.NO_ERROR, True))
        self._events = []
        return events

    def outgoing(self):
        """All that can be written now."""
        cdef bytes out
        self._flush()
        if self._out_bytes == 0:
            return b""
        out = PyBytes_FromStringAndSize(self._out, self._out_bytes)
        self._out_bytes = 0
        if self._out_room > 1048576:
            self._out = <char *> realloc(self._out, 4096)
            self._out_room = 4096
        return out

    def respond(self, int32_t stream_id, list headers, bint end):
        """Response header fields."""
        cdef ng.nv stack[NV_STACK]
        cdef ng.nv *fields = stack
        cdef ng.data_provider provider
        cdef Py_ssize_t count = len(headers)
        cdef Stream stream = self._streams.get(stream_id)
        if stream is None or stream.responded:
            return
        stream.responded = True
        if count > NV_STACK:
            fields = <ng.nv *> malloc(count * sizeof(ng.nv))
            if fields == NULL:
                raise MemoryError()
        try:
            fill(fields, headers)
            if end:
                stream.ended = True
                ng.submit_response(self._session, stream_id, fields, count, NULL)
            else:
                provider.source.ptr = <void *> stream
                provider.read_callback = on_read
                ng.submit_response(self._session, stream_id, fields, count, &provider)
        finally:
            if fields != stack:
                free(fields)

    def send(self, int32_t stream_id, bytes data, bint end):
        """A piece of the body."""
        cdef Stream stream = self._streams.get(stream_id)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        if stream is None or stream.ended:
            return
        if size > 0:
            self.held += size
            stream.append(data)
        stream.ended = end
        if stream.deferred:
            stream.deferred = False
            ng.session_resume_data(self._session, stream_id)

    def trailers(self, int32_t stream_id, list headers):
        """End the response with trailer fields."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is None or stream.ended:
            return
        stream.trailers = headers
        stream.ended = True
        if stream.deferred:
            stream.deferred = False
            ng.session_resume_data(self._session, stream_id)

    def reset(self, int32_t stream_id, uint32_t code):
        """Send RST_STREAM with `code`."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is not None:
            stream.cancelled = True
            ng.submit_rst_stream(self._session, ng.FLAG_NONE, stream_id, code)

    def pending(self, int32_t stream_id):
        """Body bytes of one stream not yet in `outgoing`."""
        cdef Stream stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.pending

    def pause(self, int32_t stream_id):
        """Send no WINDOW_UPDATE for a stream: its peer may send what the window still allows, and no more."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is not None and not stream.paused:
            stream.paused = True
            ng.session_set_local_window_size(self._session, ng.FLAG_NONE, stream_id, 0)

    def resume(self, int32_t stream_id):
        """Send WINDOW_UPDATE again, at once for what has arrived: a peer without window sends no DATA to cause one."""
        cdef Stream stream = self._streams.get(stream_id)
        cdef int32_t kept
        if stream is None or not stream.paused:
            return
        stream.paused = False
        ng.session_set_local_window_size(self._session, ng.FLAG_NONE, stream_id, STREAM_WINDOW)
        kept = ng.session_get_stream_effective_recv_data_length(self._session, stream_id)
        if kept > 0:
            ng.submit_window_update(self._session, ng.FLAG_NONE, stream_id, kept)

    def goaway(self, uint32_t code):
        """Send GOAWAY with `code` and end the connection."""
        if not self._dead:
            self._dead = True
            ng.session_terminate_session(self._session, code)

    def ping(self):
        """Send PING, which a peer that lives acknowledges."""
        ng.submit_ping(self._session, ng.FLAG_NONE, NULL)

    def stalled(self):
        """(stream id, body bytes) of the streams whose body the library has not taken whole."""
        cdef Stream stream
        return [(stream_id, stream.pending) for stream_id, stream in self._streams.items() if stream.pending > 0]

    cdef int _flush(self) except -1:
        cdef const uint8_t *piece
        cdef ssize_t size
        cdef size_t need
        cdef char *wider
        while True:
            size = ng.session_mem_send(self._session, &piece)
            if size <= 0:
                return 0
            need = self._out_bytes + <size_t> size
            if need > self._out_room:
                while self._out_room < need:
                    self._out_room *= 2
                wider = <char *> realloc(self._out, self._out_room)
                if wider == NULL:
                    raise MemoryError()
                self._out = wider
            memcpy(self._out + self._out_bytes, piece, <size_t> size)
            self._out_bytes = need


cdef int on_begin_frame(ng.session *handle, const ng.frame_hd *head, void *user) noexcept:
    """End the connection at HEADERS of a skipped stream (RFC 9113, 5.1.1): the library takes them for late ones."""
    cdef Session session
    if head.type == ng.HEADERS:
        session = <Session> user
        if head.stream_id < session._newest and ng.session_find_stream(handle, head.stream_id) == NULL:
            ng.session_terminate_session(handle, ng.PROTOCOL_ERROR)
    return 0


cdef int on_begin_headers(ng.session *handle, const ng.frame *frame, void *user) noexcept:
    cdef Session session = <Session> user
    session._header_bytes = 0
    if session._known.slots == NULL:
        session._known.slots = <Known *> calloc(KNOWN_SLOTS, sizeof(Known))
        if session._known.slots == NULL:
            return ng.ERR_CALLBACK_FAILURE
    if frame.headers.cat == ng.HCAT_REQUEST:
        session._headers = []
        session._newest = frame.hd.stream_id
        session._streams[frame.hd.stream_id] = Stream.__new__(Stream)
    else:
        session._headers = None
    return 0


cdef int on_header(ng.session *handle, const ng.frame *frame, ng.rcbuf *name, ng.rcbuf *value, uint8_t flags,
                   void *user) noexcept:
    cdef Session session = <Session> user
    cdef size_t at = slot_of(name, value)
    cdef Known *slot = &session._known.slots[at]
    cdef bint known = slot.name == name and slot.value == value
    if not known:
        slot = &session._known.slots[at ^ 1]
        known = slot.name == name and slot.value == value
    if known:
        session._header_bytes += slot.size + 32
    else:
        session._header_bytes += ng.rcbuf_get_buf(name).len + ng.rcbuf_get_buf(value).len + 32
    if session._header_bytes > HEADER_LIST_MAX:
        session._headers = None
        ng.session_terminate_session(handle, ng.ENHANCE_YOUR_CALM)
    elif session._headers is not None:
        if known:
            session._headers.append(<tuple> slot.field)
        else:
            session._headers.append(new_field(&session._known, at, name, value, flags))
    return 0


cdef int on_frame_recv(ng.session *handle, const ng.frame *frame, void *user) noexcept:
    cdef Session session
    cdef bint end
    if frame.hd.type == ng.HEADERS:
        session = <Session> user
        end = frame.hd.flags & ng.FLAG_END_STREAM != 0
        if session._headers is not None:
            session._events.append((HEADERS, frame.hd.stream_id, session._headers, end))
            session._headers = None
        elif end:
            session._events.append((ENDED, frame.hd.stream_id, None, True))
    elif frame.hd.type == ng.DATA and frame.hd.flags & ng.FLAG_END_STREAM:
        session = <Session> user
        session._events.append((ENDED, frame.hd.stream_id, None, True))
    return 0


cdef int on_data_chunk(ng.session *handle, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t size,
                       void *user) noexcept:
    cdef Session session = <Session> user
    session._events.append((DATA, stream_id, PyBytes_FromStringAndSize(<const char *> data, size), False))
    return 0


cdef int on_stream_close(ng.session *handle, int32_t stream_id, uint32_t code, void *user) noexcept:
    cdef Session session = <Session> user
    cdef Stream stream = session._streams.pop(stream_id, None)
    if stream is None:
        return 0
    session.held -= stream.pending
    if not stream.end_sent and not stream.cancelled:
        session._events.append((RESET, stream_id, code, True))
    return 0


cdef int on_frame_send(ng.session *handle, const ng.frame *frame, void *user) noexcept:
    cdef Session session
    cdef Stream stream
    if frame.hd.type == ng.GOAWAY:
        session = <Session> user
        session._goaway_sent = True
        session._goaway_code = frame.goaway.error_code
    elif frame.hd.type <= ng.HEADERS and frame.hd.flags & ng.FLAG_END_STREAM:
        session = <Session> user
        stream = session._streams.get(frame.hd.stream_id)
        if stream is not None:
            stream.end_sent = True
        if ng.session_get_stream_remote_close(handle, frame.hd.stream_id) == 0:
            ng.submit_rst_stream(handle, ng.FLAG_NONE, frame.hd.stream_id, ng.NO_ERROR)
    return 0


cdef ssize_t on_read(ng.session *handle, int32_t stream_id, uint8_t *out, size_t room, uint32_t *flags,
                     ng.data_source *source, void *user) noexcept:
    cdef Session session = <Session> user
    cdef Stream stream = <Stream> source.ptr
    cdef size_t done = stream.copy_to(out, room)
    cdef ng.nv fields[NV_STACK]
    session.held -= <Py_ssize_t> done
    if stream.chunk is None:
        if stream.ended:
            flags[0] |= ng.DATA_FLAG_EOF
            if stream.trailers is not None and len(stream.trailers) <= NV_STACK:
                flags[0] |= ng.DATA_FLAG_NO_END_STREAM
                fill(fields, stream.trailers)
                ng.submit_trailer(handle, stream_id, fields, len(stream.trailers))
        elif done == 0:
            stream.deferred = True
            return ng.ERR_DEFERRED
    return <ssize_t> done


cdef int prepare() except -1:
    global CALLBACKS, OPTIONS
    if ng.session_callbacks_new(&CALLBACKS) != 0 or ng.option_new(&OPTIONS) != 0:
        raise MemoryError()
    ng.session_callbacks_set_on_begin_frame_callback(CALLBACKS, on_begin_frame)
    ng.session_callbacks_set_on_begin_headers_callback(CALLBACKS, on_begin_headers)
    ng.session_callbacks_set_on_header_callback2(CALLBACKS, on_header)
    ng.session_callbacks_set_on_frame_recv_callback(CALLBACKS, on_frame_recv)
    ng.session_callbacks_set_on_data_chunk_recv_callback(CALLBACKS, on_data_chunk)
    ng.session_callbacks_set_on_stream_close_callback(CALLBACKS, on_stream_close)
    ng.session_callbacks_set_on_frame_send_callback(CALLBACKS, on_frame_send)
    ng.allow_continuations(OPTIONS)
    return 0


prepare()
