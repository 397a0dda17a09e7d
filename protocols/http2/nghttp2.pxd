# cython: language_level=3
"""The part of nghttp2/nghttp2.h that the engine uses."""

from libc.stdint cimport int32_t, uint8_t, uint32_t


cdef extern from *:
    """
    #include <nghttp2/nghttp2.h>

    /* Libraries from 2024 on, and older ones with the fix of that year, stop at 8 CONTINUATION frames; but they count each
       time they look at one that has not arrived whole. Frames are counted before they get there (frame.py), so let them. */
    extern void nghttp2_option_set_max_continuations(nghttp2_option *option, size_t count) __attribute__((weak));

    static void allow_continuations(nghttp2_option *option) {
        if (nghttp2_option_set_max_continuations) {
            nghttp2_option_set_max_continuations(option, 1024);
        }
    }
    """
    void allow_continuations(nghttp2_option *)

cdef extern from "nghttp2/nghttp2.h":
    ctypedef struct nghttp2_session:
        pass
    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass
    ctypedef struct nghttp2_nv:
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef enum nghttp2_headers_category:
        NGHTTP2_HCAT_REQUEST
    ctypedef struct nghttp2_headers:
        nghttp2_frame_hd hd
        nghttp2_headers_category cat
    ctypedef struct nghttp2_goaway:
        uint32_t error_code
    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers
        nghttp2_goaway goaway
    ctypedef union nghttp2_data_source:
        void *ptr
    ctypedef ssize_t (*nghttp2_data_source_read_callback)(
        nghttp2_session *, int32_t, uint8_t *, size_t, uint32_t *, nghttp2_data_source *, void *) noexcept
    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_data_source_read_callback read_callback
    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value

    enum:
        NGHTTP2_DATA
        NGHTTP2_HEADERS
        NGHTTP2_GOAWAY
        NGHTTP2_FLAG_NONE
        NGHTTP2_FLAG_END_STREAM
        NGHTTP2_DATA_FLAG_EOF
        NGHTTP2_DATA_FLAG_NO_END_STREAM
        NGHTTP2_ERR_DEFERRED
        NGHTTP2_NV_FLAG_NONE
        NGHTTP2_ENHANCE_YOUR_CALM
        NGHTTP2_PROTOCOL_ERROR
        NGHTTP2_NO_ERROR
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks **)
    ctypedef struct nghttp2_stream:
        pass
    nghttp2_stream *nghttp2_session_find_stream(nghttp2_session *, int32_t)
    void nghttp2_session_callbacks_set_on_begin_frame_callback(
        nghttp2_session_callbacks *, int (*)(nghttp2_session *, const nghttp2_frame_hd *, void *) noexcept)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(
        nghttp2_session_callbacks *, int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    void nghttp2_session_callbacks_set_on_header_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, const nghttp2_frame *, const uint8_t *, size_t, const uint8_t *, size_t, uint8_t,
                void *) noexcept)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks *, int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks *,
        int (*)(nghttp2_session *, uint8_t, int32_t, const uint8_t *, size_t, void *) noexcept)
    void nghttp2_session_callbacks_set_on_stream_close_callback(
        nghttp2_session_callbacks *, int (*)(nghttp2_session *, int32_t, uint32_t, void *) noexcept)
    void nghttp2_session_callbacks_set_on_frame_send_callback(
        nghttp2_session_callbacks *, int (*)(nghttp2_session *, const nghttp2_frame *, void *) noexcept)
    int nghttp2_option_new(nghttp2_option **)
    int nghttp2_session_server_new2(
        nghttp2_session **, const nghttp2_session_callbacks *, void *, const nghttp2_option *)
    void nghttp2_session_del(nghttp2_session *)
    ssize_t nghttp2_session_mem_recv(nghttp2_session *, const uint8_t *, size_t)
    ssize_t nghttp2_session_mem_send(nghttp2_session *, const uint8_t **)
    int nghttp2_session_terminate_session(nghttp2_session *, uint32_t)
    int nghttp2_session_want_read(nghttp2_session *)
    int nghttp2_session_want_write(nghttp2_session *)
    int nghttp2_session_resume_data(nghttp2_session *, int32_t)
    int nghttp2_session_get_stream_remote_close(nghttp2_session *, int32_t)
    int nghttp2_session_set_local_window_size(nghttp2_session *, uint8_t, int32_t, int32_t)
    int32_t nghttp2_session_get_stream_effective_recv_data_length(nghttp2_session *, int32_t)
    int nghttp2_submit_window_update(nghttp2_session *, uint8_t, int32_t, int32_t)
    int nghttp2_submit_settings(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t)
    int nghttp2_submit_response(
        nghttp2_session *, int32_t, const nghttp2_nv *, size_t, const nghttp2_data_provider *)
    int nghttp2_submit_trailer(nghttp2_session *, int32_t, const nghttp2_nv *, size_t)
    int nghttp2_submit_rst_stream(nghttp2_session *, uint8_t, int32_t, uint32_t)
    int nghttp2_submit_ping(nghttp2_session *, uint8_t, const uint8_t *)
