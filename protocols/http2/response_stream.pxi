"""The response side of a stream, and the fields that are handed to the library. A part of protocols/http2/engine_nghttp2.pyx."""


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
