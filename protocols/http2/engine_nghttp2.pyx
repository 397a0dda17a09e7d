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
    KNOWN_SLOTS = 64        # fields of earlier requests that a connection remembers; a power of two
    KNOWN_BYTES_MAX = 8192  # of their names and values; with more, all are forgotten
    FIELD_BYTES_MAX = 512   # of one of them
    NAMES_MAX = 1024        # names that are remembered, for all connections
    NAME_BYTES_MAX = 64
    ENABLE_CONNECT_PROTOCOL = 8  # RFC 8441, section 3

cdef ng.session_callbacks *CALLBACKS = NULL
cdef ng.option *OPTIONS = NULL


cdef dict NAMES = {}
"""Name of a field -> the same: names are the same objects in all requests, with a hash that is computed once."""


cdef struct Known:
    # A field as the library holds it, and as Python objects. While the references are held, no other field has their addresses.
    ng.rcbuf *name
    ng.rcbuf *value
    PyObject *field         # (name, value)
    size_t size             # of both


@cython.no_gc  # its objects refer to no others
@cython.freelist(128)
cdef class Stream:
    """The response side of one stream."""

    cdef object chunks      # deque of bytes, made when a second piece has to wait
    cdef bytes chunk        # the piece being sent
    cdef Py_ssize_t offset  # of the piece being sent
    cdef Py_ssize_t pending # body bytes that the library has not taken
    cdef list trailers
    cdef bint ended         # the application sends no more of the body
    cdef bint end_sent      # END_STREAM is in a frame that the library has sent
    cdef bint responded     # `respond` was called
    cdef bint deferred      # the library asked for a piece when there was none
    cdef bint cancelled     # reset by our own application
    cdef bint paused        # the peer gets no WINDOW_UPDATE

    cdef void append(self, bytes data):
        self.pending += PyBytes_GET_SIZE(data)
        if self.chunk is None:
            self.chunk = data
            self.offset = 0
        else:
            if self.chunks is None:
                self.chunks = deque()
            self.chunks.append(data)

    cdef size_t copy_to(self, uint8_t *out, size_t room) noexcept:
        cdef size_t done = 0
        cdef size_t size
        while self.chunk is not None and done < room:
            size = <size_t> (PyBytes_GET_SIZE(self.chunk) - self.offset)
            if size > room - done:
                size = room - done
            memcpy(out + done, PyBytes_AS_STRING(self.chunk) + self.offset, size)
            done += size
            self.offset += <Py_ssize_t> size
            if self.offset == PyBytes_GET_SIZE(self.chunk):
                self.chunk = self.chunks.popleft() if self.chunks else None
                self.offset = 0
        self.pending -= <Py_ssize_t> done
        return done


cdef int fill(ng.nv *fields, list headers) except -1:
    cdef Py_ssize_t at = 0
    cdef tuple field
    cdef bytes name, value
    for field in headers:
        name = field[0]
        value = field[1]
        fields[at].name = <uint8_t *> PyBytes_AS_STRING(name)
        fields[at].namelen = PyBytes_GET_SIZE(name)
        fields[at].value = <uint8_t *> PyBytes_AS_STRING(value)
        fields[at].valuelen = PyBytes_GET_SIZE(value)
        fields[at].flags = ng.NV_FLAG_NONE
        at += 1
    return 0


cdef class Session:
    """One connection. protocols/http2/engine.py has the contract."""

    cdef ng.session *_session
    cdef dict _streams
    cdef list _events
    cdef list _headers
    cdef size_t _header_bytes
    cdef Known *_known      # fields of earlier requests, by the addresses of name and value; NULL before the first request
    cdef size_t _known_bytes
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
        if self._known != NULL:
            self._forget_all()
            free(self._known)
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

    cdef void _forget_all(self) noexcept:
        cdef int at
        for at in range(KNOWN_SLOTS):
            forget(&self._known[at])
        self._known_bytes = 0

    cdef tuple _field(self, Known *first, Known *second, ng.rcbuf *name, ng.rcbuf *value, uint8_t flags):
        """A new field, remembered in place of `second` unless it is large, or is not to be kept anywhere (RFC 7541, 7.1.3)."""
        cdef ng.vec name_text = ng.rcbuf_get_buf(name)
        cdef ng.vec value_text = ng.rcbuf_get_buf(value)
        cdef size_t size = name_text.len + value_text.len
        cdef tuple field = (
            name_of(name_text), PyBytes_FromStringAndSize(<const char *> value_text.base, <Py_ssize_t> value_text.len))
        if size > FIELD_BYTES_MAX or flags & ng.NV_FLAG_NO_INDEX:
            return field
        if self._known_bytes + size > KNOWN_BYTES_MAX:
            self._forget_all()
        if first.field != NULL:
            self._known_bytes -= second.size
            forget(second)
            second[0] = first[0]
        self._known_bytes += size
        ng.rcbuf_incref(name)
        ng.rcbuf_incref(value)
        Py_INCREF(field)
        first.name = name
        first.value = value
        first.field = <PyObject *> field
        first.size = size
        return field

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
    if session._known == NULL:
        session._known = <Known *> calloc(KNOWN_SLOTS, sizeof(Known))
        if session._known == NULL:
            return ng.ERR_CALLBACK_FAILURE
    if frame.headers.cat == ng.HCAT_REQUEST:
        session._headers = []
        session._newest = frame.hd.stream_id
        session._streams[frame.hd.stream_id] = Stream.__new__(Stream)
    else:
        session._headers = None
    return 0


cdef void forget(Known *slot) noexcept:
    if slot.field != NULL:
        ng.rcbuf_decref(slot.name)
        ng.rcbuf_decref(slot.value)
        Py_DECREF(<object> slot.field)
        slot.field = NULL
        slot.name = slot.value = NULL
        slot.size = 0


cdef bytes name_of(ng.vec text):
    cdef bytes name = PyBytes_FromStringAndSize(<const char *> text.base, <Py_ssize_t> text.len)
    cdef PyObject *known = PyDict_GetItem(NAMES, name)
    if known != NULL:
        return <bytes> known
    if text.len <= NAME_BYTES_MAX:
        if len(NAMES) >= NAMES_MAX:
            NAMES.clear()
        NAMES[name] = name
    return name


cdef int on_header(ng.session *handle, const ng.frame *frame, ng.rcbuf *name, ng.rcbuf *value, uint8_t flags,
                   void *user) noexcept:
    """One field. The library hands out the same buffers while a field is in the dynamic or the static table (RFC 7541, 2.3)."""
    cdef Session session = <Session> user
    cdef uint64_t mixed = ((<uint64_t> <size_t> name) * 31 + <uint64_t> <size_t> value) * 0x9E3779B97F4A7C15ULL
    cdef size_t at = <size_t> (mixed >> 32) & (KNOWN_SLOTS - 1)
    cdef Known *slot = &session._known[at]
    cdef bint known = slot.name == name and slot.value == value
    if not known:
        slot = &session._known[at ^ 1]
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
            session._headers.append(session._field(&session._known[at], slot, name, value, flags))
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
