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
    void allow_continuations(option *)

cdef extern from "nghttp2/nghttp2.h":
    ctypedef struct session "nghttp2_session":
        pass
    ctypedef struct session_callbacks "nghttp2_session_callbacks":
        pass
    ctypedef struct option "nghttp2_option":
        pass
    ctypedef struct rcbuf "nghttp2_rcbuf":
        pass
    ctypedef struct vec "nghttp2_vec":
        uint8_t *base
        size_t len
    ctypedef struct nv "nghttp2_nv":
        uint8_t *name
        uint8_t *value
        size_t namelen
        size_t valuelen
        uint8_t flags
    ctypedef struct frame_hd "nghttp2_frame_hd":
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags
    ctypedef enum headers_category "nghttp2_headers_category":
        HCAT_REQUEST "NGHTTP2_HCAT_REQUEST"
    ctypedef struct headers "nghttp2_headers":
        frame_hd hd
        headers_category cat
    ctypedef struct goaway "nghttp2_goaway":
        uint32_t error_code
    ctypedef union frame "nghttp2_frame":
        frame_hd hd
        headers headers
        goaway goaway
    ctypedef union data_source "nghttp2_data_source":
        void *ptr
    ctypedef ssize_t (*data_source_read_callback "nghttp2_data_source_read_callback")(
        session *, int32_t, uint8_t *, size_t, uint32_t *, data_source *, void *) noexcept
    ctypedef struct data_provider "nghttp2_data_provider":
        data_source source
        data_source_read_callback read_callback
    ctypedef struct settings_entry "nghttp2_settings_entry":
        int32_t settings_id
        uint32_t value

    enum:
        DATA "NGHTTP2_DATA"
        HEADERS "NGHTTP2_HEADERS"
        GOAWAY "NGHTTP2_GOAWAY"
        FLAG_NONE "NGHTTP2_FLAG_NONE"
        FLAG_END_STREAM "NGHTTP2_FLAG_END_STREAM"
        DATA_FLAG_EOF "NGHTTP2_DATA_FLAG_EOF"
        DATA_FLAG_NO_END_STREAM "NGHTTP2_DATA_FLAG_NO_END_STREAM"
        ERR_DEFERRED "NGHTTP2_ERR_DEFERRED"
        ERR_CALLBACK_FAILURE "NGHTTP2_ERR_CALLBACK_FAILURE"
        NV_FLAG_NONE "NGHTTP2_NV_FLAG_NONE"
        NV_FLAG_NO_INDEX "NGHTTP2_NV_FLAG_NO_INDEX"
        ENHANCE_YOUR_CALM "NGHTTP2_ENHANCE_YOUR_CALM"
        PROTOCOL_ERROR "NGHTTP2_PROTOCOL_ERROR"
        NO_ERROR "NGHTTP2_NO_ERROR"
        SETTINGS_MAX_CONCURRENT_STREAMS "NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS"
        SETTINGS_INITIAL_WINDOW_SIZE "NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE"
        SETTINGS_MAX_HEADER_LIST_SIZE "NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE"

    int session_callbacks_new "nghttp2_session_callbacks_new"(session_callbacks **)
    ctypedef struct stream "nghttp2_stream":
        pass
    stream *session_find_stream "nghttp2_session_find_stream"(session *, int32_t)
    void session_callbacks_set_on_begin_frame_callback "nghttp2_session_callbacks_set_on_begin_frame_callback"(
        session_callbacks *, int (*)(session *, const frame_hd *, void *) noexcept)
    void session_callbacks_set_on_begin_headers_callback "nghttp2_session_callbacks_set_on_begin_headers_callback"(
        session_callbacks *, int (*)(session *, const frame *, void *) noexcept)
    void session_callbacks_set_on_header_callback2 "nghttp2_session_callbacks_set_on_header_callback2"(
        session_callbacks *, int (*)(session *, const frame *, rcbuf *, rcbuf *, uint8_t, void *) noexcept)
    void rcbuf_incref "nghttp2_rcbuf_incref"(rcbuf *)
    void rcbuf_decref "nghttp2_rcbuf_decref"(rcbuf *)
    vec rcbuf_get_buf "nghttp2_rcbuf_get_buf"(rcbuf *)
    void session_callbacks_set_on_frame_recv_callback "nghttp2_session_callbacks_set_on_frame_recv_callback"(
        session_callbacks *, int (*)(session *, const frame *, void *) noexcept)
    void session_callbacks_set_on_data_chunk_recv_callback "nghttp2_session_callbacks_set_on_data_chunk_recv_callback"(
        session_callbacks *,
        int (*)(session *, uint8_t, int32_t, const uint8_t *, size_t, void *) noexcept)
    void session_callbacks_set_on_stream_close_callback "nghttp2_session_callbacks_set_on_stream_close_callback"(
        session_callbacks *, int (*)(session *, int32_t, uint32_t, void *) noexcept)
    void session_callbacks_set_on_frame_send_callback "nghttp2_session_callbacks_set_on_frame_send_callback"(
        session_callbacks *, int (*)(session *, const frame *, void *) noexcept)
    int option_new "nghttp2_option_new"(option **)
    int session_server_new2 "nghttp2_session_server_new2"(
        session **, const session_callbacks *, void *, const option *)
    void session_del "nghttp2_session_del"(session *)
    ssize_t session_mem_recv "nghttp2_session_mem_recv"(session *, const uint8_t *, size_t)
    ssize_t session_mem_send "nghttp2_session_mem_send"(session *, const uint8_t **)
    int session_terminate_session "nghttp2_session_terminate_session"(session *, uint32_t)
    int session_want_read "nghttp2_session_want_read"(session *)
    int session_want_write "nghttp2_session_want_write"(session *)
    int session_resume_data "nghttp2_session_resume_data"(session *, int32_t)
    int session_get_stream_remote_close "nghttp2_session_get_stream_remote_close"(session *, int32_t)
    int session_set_local_window_size "nghttp2_session_set_local_window_size"(session *, uint8_t, int32_t, int32_t)
    int32_t session_get_stream_effective_recv_data_length "nghttp2_session_get_stream_effective_recv_data_length"(session *, int32_t)
    int submit_window_update "nghttp2_submit_window_update"(session *, uint8_t, int32_t, int32_t)
    int submit_settings "nghttp2_submit_settings"(session *, uint8_t, const settings_entry *, size_t)
    int submit_response "nghttp2_submit_response"(
        session *, int32_t, const nv *, size_t, const data_provider *)
    int submit_trailer "nghttp2_submit_trailer"(session *, int32_t, const nv *, size_t)
    int submit_rst_stream "nghttp2_submit_rst_stream"(session *, uint8_t, int32_t, uint32_t)
    int submit_ping "nghttp2_submit_ping"(session *, uint8_t, const uint8_t *)
