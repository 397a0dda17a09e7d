# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# distutils: libraries = nghttp2
"""HTTP/2 by libnghttp2: a thin binding that keeps the contract of protocols/http2/engine.py.

Callbacks of the library append events to one list per `receive`; response bodies stay Python bytes until the library asks
for a frame's worth. Pointers handed to the library are borrowed: a stream lives in `_streams` for as long as the library knows it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from protocols.http2.nghttp2 cimport (
    NGHTTP2_DATA, NGHTTP2_DATA_FLAG_EOF, NGHTTP2_DATA_FLAG_NO_END_STREAM, NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_ERR_DEFERRED,
    NGHTTP2_FLAG_END_STREAM, NGHTTP2_FLAG_NONE, NGHTTP2_GOAWAY, NGHTTP2_HCAT_REQUEST, NGHTTP2_HEADERS, NGHTTP2_NO_ERROR,
    NGHTTP2_NV_FLAG_NONE, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
    NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, allow_continuations,
    nghttp2_data_provider, nghttp2_data_source, nghttp2_frame, nghttp2_nv, nghttp2_option, nghttp2_option_new,
    nghttp2_session, nghttp2_session_callbacks, nghttp2_session_callbacks_new,
    nghttp2_session_callbacks_set_on_begin_frame_callback, nghttp2_session_find_stream, nghttp2_frame_hd,
    nghttp2_session_callbacks_set_on_begin_headers_callback, nghttp2_session_callbacks_set_on_data_chunk_recv_callback,
    nghttp2_session_callbacks_set_on_frame_recv_callback, nghttp2_session_callbacks_set_on_frame_send_callback,
    nghttp2_session_callbacks_set_on_header_callback, nghttp2_session_callbacks_set_on_stream_close_callback,
    nghttp2_session_del, nghttp2_session_get_stream_effective_recv_data_length,
    nghttp2_session_get_stream_remote_close, nghttp2_session_mem_recv, nghttp2_session_mem_send,
    nghttp2_session_resume_data, nghttp2_session_server_new2, nghttp2_session_set_local_window_size,
    nghttp2_session_terminate_session, nghttp2_session_want_read, nghttp2_session_want_write, nghttp2_settings_entry,
    nghttp2_submit_ping, nghttp2_submit_response,
    nghttp2_submit_rst_stream, nghttp2_submit_settings, nghttp2_submit_trailer, nghttp2_submit_window_update,
)

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

cdef nghttp2_session_callbacks *CALLBACKS = NULL
cdef nghttp2_option *OPTIONS = NULL


cdef class Stream:
    """The response side of one stream."""

    cdef object chunks      # deque of bytes, made when a second piece has to wait
    cdef bytes chunk        # the piece being sent
    cdef Py_ssize_t offset  # of the piece being sent
    cdef Py_ssize_t pending
    cdef list trailers
    cdef bint ended         # nothing more will be given to `send`
    cdef bint over          # our END_STREAM has been put into a frame
    cdef bint begun
    cdef bint deferred
    cdef bint cancelled     # reset by our own application
    cdef bint paused        # its window is kept


cdef int fill(nghttp2_nv *fields, list headers) except -1:
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
        fields[at].flags = NGHTTP2_NV_FLAG_NONE
        at += 1
    return 0


cdef class Session:
    """One connection. protocols/http2/engine.py has the contract."""

    cdef nghttp2_session *_session
    cdef dict _streams
    cdef list _events
    cdef list _headers
    cdef size_t _header_bytes
    cdef char *_out
    cdef size_t _out_bytes
    cdef size_t _out_room
    cdef int32_t _newest    # the highest stream that the peer has opened
    cdef bint _goodbye
    cdef bint _dead
    cdef uint32_t _goodbye_code
    cdef public Py_ssize_t held

    def __cinit__(self, int streams_max):
        cdef nghttp2_settings_entry settings[4]
        self._streams = {}
        self._events = []
        self._headers = None
        self._out_room = 4096
        self._out = <char *> malloc(self._out_room)
        if self._out == NULL:
            raise MemoryError()
        if nghttp2_session_server_new2(&self._session, CALLBACKS, <void *> self, OPTIONS) != 0:
            raise MemoryError()
        settings[0].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        settings[0].value = streams_max
        settings[1].settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        settings[1].value = STREAM_WINDOW
        settings[2].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
        settings[2].value = HEADER_LIST_MAX
        settings[3].settings_id = ENABLE_CONNECT_PROTOCOL
        settings[3].value = 1
        nghttp2_submit_settings(self._session, NGHTTP2_FLAG_NONE, settings, 4)
        nghttp2_session_set_local_window_size(self._session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW)

    def __dealloc__(self):
        if self._session != NULL:
            nghttp2_session_del(self._session)
        free(self._out)

    def receive(self, bytes data):
        """The next bytes of the peer -> events, in order."""
        cdef list events = self._events  # a stream may have ended while bytes were taken out
        cdef ssize_t rv
        if self._dead:
            return []
        rv = nghttp2_session_mem_recv(
            self._session, <const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        if rv < 0:
            nghttp2_session_terminate_session(self._session, NGHTTP2_PROTOCOL_ERROR)
        # Control frames, and data that windows held, are ready now; and the library tells its own goodbye only by sending it.
        self._flush()
        if self._goodbye and not self._dead:
            self._dead = True
            events.append((FATAL, 0, self._goodbye_code, True))
        elif nghttp2_session_want_read(self._session) == 0 and nghttp2_session_want_write(self._session) == 0:
            self._dead = True  # the peer has said goodbye, and nothing is left to be done
            events.append((FATAL, 0, NGHTTP2_NO_ERROR, True))
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
        cdef nghttp2_nv stack[NV_STACK]
        cdef nghttp2_nv *fields = stack
        cdef nghttp2_data_provider provider
        cdef Py_ssize_t count = len(headers)
        cdef Stream stream = self._streams.get(stream_id)
        if stream is None or stream.begun:
            return
        stream.begun = True
        if count > NV_STACK:
            fields = <nghttp2_nv *> malloc(count * sizeof(nghttp2_nv))
            if fields == NULL:
                raise MemoryError()
        try:
            fill(fields, headers)
            if end:
                stream.ended = True
                nghttp2_submit_response(self._session, stream_id, fields, count, NULL)
            else:
                provider.source.ptr = <void *> stream
                provider.read_callback = on_read
                nghttp2_submit_response(self._session, stream_id, fields, count, &provider)
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
            stream.pending += size
            self.held += size
            if stream.chunk is None:
                stream.chunk = data
                stream.offset = 0
            else:
                if stream.chunks is None:
                    stream.chunks = deque()
                stream.chunks.append(data)
        stream.ended = end
        if stream.deferred:
            stream.deferred = False
            nghttp2_session_resume_data(self._session, stream_id)

    def trailers(self, int32_t stream_id, list headers):
        """End the response with trailer fields."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is None or stream.ended:
            return
        stream.trailers = headers
        stream.ended = True
        if stream.deferred:
            stream.deferred = False
            nghttp2_session_resume_data(self._session, stream_id)

    def reset(self, int32_t stream_id, uint32_t code):
        """Give the stream up."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is not None:
            stream.cancelled = True
            nghttp2_submit_rst_stream(self._session, NGHTTP2_FLAG_NONE, stream_id, code)

    def pending(self, int32_t stream_id):
        """Body bytes of one stream not yet in `outgoing`."""
        cdef Stream stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.pending

    def pause(self, int32_t stream_id):
        """Keep the window of a stream: it ends where the peer knows its end to be, and the library gives none of it back."""
        cdef Stream stream = self._streams.get(stream_id)
        if stream is not None and not stream.paused:
            stream.paused = True
            nghttp2_session_set_local_window_size(self._session, NGHTTP2_FLAG_NONE, stream_id, 0)

    def resume(self, int32_t stream_id):
        """Give it back, and at once: a peer without room sends nothing that the library would answer."""
        cdef Stream stream = self._streams.get(stream_id)
        cdef int32_t kept
        if stream is None or not stream.paused:
            return
        stream.paused = False
        nghttp2_session_set_local_window_size(self._session, NGHTTP2_FLAG_NONE, stream_id, STREAM_WINDOW)
        kept = nghttp2_session_get_stream_effective_recv_data_length(self._session, stream_id)
        if kept > 0:
            nghttp2_submit_window_update(self._session, NGHTTP2_FLAG_NONE, stream_id, kept)

    def goaway(self, uint32_t code):
        """Say goodbye."""
        if not self._dead:
            self._dead = True
            nghttp2_session_terminate_session(self._session, code)

    def ping(self):
        """Ask whether the peer is there."""
        nghttp2_submit_ping(self._session, NGHTTP2_FLAG_NONE, NULL)

    def stalled(self):
        """(stream, bytes) of streams with bytes that wait."""
        cdef Stream stream
        return [(stream_id, stream.pending) for stream_id, stream in self._streams.items() if stream.pending > 0]

    cdef int _flush(self) except -1:
        cdef const uint8_t *piece
        cdef ssize_t size
        cdef size_t need
        cdef char *wider
        while True:
            size = nghttp2_session_mem_send(self._session, &piece)
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


cdef int on_begin_frame(nghttp2_session *handle, const nghttp2_frame_hd *head, void *user) noexcept:
    """The library lets header fields for a stream that was skipped pass as late ones; RFC 9113 section 5.1.1 does not."""
    cdef Session session
    if head.type == NGHTTP2_HEADERS:
        session = <Session> user
        if head.stream_id < session._newest and nghttp2_session_find_stream(handle, head.stream_id) == NULL:
            nghttp2_session_terminate_session(handle, NGHTTP2_PROTOCOL_ERROR)
    return 0


cdef int on_begin_headers(nghttp2_session *handle, const nghttp2_frame *frame, void *user) noexcept:
    cdef Session session = <Session> user
    session._header_bytes = 0
    if frame.headers.cat == NGHTTP2_HCAT_REQUEST:
        session._headers = []
        session._newest = frame.hd.stream_id
        session._streams[frame.hd.stream_id] = Stream.__new__(Stream)
    else:
        session._headers = None
    return 0


cdef int on_header(nghttp2_session *handle, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                   const uint8_t *value, size_t value_size, uint8_t flags, void *user) noexcept:
    cdef Session session = <Session> user
    session._header_bytes += name_size + value_size + 32
    if session._header_bytes > HEADER_LIST_MAX:
        session._headers = None
        nghttp2_session_terminate_session(handle, NGHTTP2_ENHANCE_YOUR_CALM)
    elif session._headers is not None:
        session._headers.append((
            PyBytes_FromStringAndSize(<const char *> name, name_size),
            PyBytes_FromStringAndSize(<const char *> value, value_size),
        ))
    return 0


cdef int on_frame_recv(nghttp2_session *handle, const nghttp2_frame *frame, void *user) noexcept:
    cdef Session session
    cdef bint end
    if frame.hd.type == NGHTTP2_HEADERS:
        session = <Session> user
        end = frame.hd.flags & NGHTTP2_FLAG_END_STREAM != 0
        if session._headers is not None:
            session._events.append((HEADERS, frame.hd.stream_id, session._headers, end))
            session._headers = None
        elif end:
            session._events.append((ENDED, frame.hd.stream_id, None, True))
    elif frame.hd.type == NGHTTP2_DATA and frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
        session = <Session> user
        session._events.append((ENDED, frame.hd.stream_id, None, True))
    return 0


cdef int on_data_chunk(nghttp2_session *handle, uint8_t flags, int32_t stream_id, const uint8_t *data, size_t size,
                       void *user) noexcept:
    cdef Session session = <Session> user
    session._events.append((DATA, stream_id, PyBytes_FromStringAndSize(<const char *> data, size), False))
    return 0


cdef int on_stream_close(nghttp2_session *handle, int32_t stream_id, uint32_t code, void *user) noexcept:
    cdef Session session = <Session> user
    cdef Stream stream = session._streams.pop(stream_id, None)
    if stream is None:
        return 0
    session.held -= stream.pending
    if not stream.over and not stream.cancelled:
        session._events.append((RESET, stream_id, code, True))
    return 0


cdef int on_frame_send(nghttp2_session *handle, const nghttp2_frame *frame, void *user) noexcept:
    cdef Session session
    cdef Stream stream
    if frame.hd.type == NGHTTP2_GOAWAY:
        session = <Session> user
        session._goodbye = True
        session._goodbye_code = frame.goaway.error_code
    elif frame.hd.type <= NGHTTP2_HEADERS and frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
        session = <Session> user
        stream = session._streams.get(frame.hd.stream_id)
        if stream is not None:
            stream.over = True
        if nghttp2_session_get_stream_remote_close(handle, frame.hd.stream_id) == 0:
            nghttp2_submit_rst_stream(handle, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR)
    return 0


cdef ssize_t on_read(nghttp2_session *handle, int32_t stream_id, uint8_t *out, size_t room, uint32_t *flags,
                     nghttp2_data_source *source, void *user) noexcept:
    cdef Session session = <Session> user
    cdef Stream stream = <Stream> source.ptr
    cdef size_t done = 0
    cdef size_t size
    cdef nghttp2_nv fields[NV_STACK]
    while stream.chunk is not None and done < room:
        size = <size_t> (PyBytes_GET_SIZE(stream.chunk) - stream.offset)
        if size > room - done:
            size = room - done
        memcpy(out + done, PyBytes_AS_STRING(stream.chunk) + stream.offset, size)
        done += size
        stream.offset += <Py_ssize_t> size
        if stream.offset == PyBytes_GET_SIZE(stream.chunk):
            stream.chunk = stream.chunks.popleft() if stream.chunks else None
            stream.offset = 0
    stream.pending -= <Py_ssize_t> done
    session.held -= <Py_ssize_t> done
    if stream.chunk is None:
        if stream.ended:
            flags[0] |= NGHTTP2_DATA_FLAG_EOF
            if stream.trailers is not None and len(stream.trailers) <= NV_STACK:
                flags[0] |= NGHTTP2_DATA_FLAG_NO_END_STREAM
                fill(fields, stream.trailers)
                nghttp2_submit_trailer(handle, stream_id, fields, len(stream.trailers))
        elif done == 0:
            stream.deferred = True
            return NGHTTP2_ERR_DEFERRED
    return <ssize_t> done


cdef int prepare() except -1:
    global CALLBACKS, OPTIONS
    if nghttp2_session_callbacks_new(&CALLBACKS) != 0 or nghttp2_option_new(&OPTIONS) != 0:
        raise MemoryError()
    nghttp2_session_callbacks_set_on_begin_frame_callback(CALLBACKS, on_begin_frame)
    nghttp2_session_callbacks_set_on_begin_headers_callback(CALLBACKS, on_begin_headers)
    nghttp2_session_callbacks_set_on_header_callback(CALLBACKS, on_header)
    nghttp2_session_callbacks_set_on_frame_recv_callback(CALLBACKS, on_frame_recv)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(CALLBACKS, on_data_chunk)
    nghttp2_session_callbacks_set_on_stream_close_callback(CALLBACKS, on_stream_close)
    nghttp2_session_callbacks_set_on_frame_send_callback(CALLBACKS, on_frame_send)
    allow_continuations(OPTIONS)
    return 0


prepare()
