"""Fields of earlier requests that a connection remembers, so that the same field is the same object in all of its requests.

The library hands out the same buffers while a field is in the dynamic or the static table (RFC 7541, 2.3), so a field is found
by the addresses of its name and value. A part of protocols/http2/engine_nghttp2.pyx.
"""

cdef enum:
    KNOWN_SLOTS = 64        # fields of earlier requests that a connection remembers; a power of two
    KNOWN_BYTES_MAX = 8192  # of their names and values; with more, all are forgotten
    FIELD_BYTES_MAX = 512   # of one of them
    NAMES_MAX = 1024        # names that are remembered, for all connections
    NAME_BYTES_MAX = 64


cdef dict NAMES = {}
"""Name of a field -> the same: names are the same objects in all requests, with a hash that is computed once."""


cdef struct Known:
    # A field as the library holds it, and as Python objects. While the references are held, no other field has their addresses.
    ng.rcbuf *name
    ng.rcbuf *value
    PyObject *field         # (name, value)
    size_t size             # of both


cdef struct KnownFields:
    Known *slots            # KNOWN_SLOTS of them, by the addresses of name and value; NULL before the first request
    size_t size             # of all


cdef void forget(Known *slot) noexcept:
    if slot.field != NULL:
        ng.rcbuf_decref(slot.name)
        ng.rcbuf_decref(slot.value)
        Py_DECREF(<object> slot.field)
        slot.field = NULL
        slot.name = slot.value = NULL
        slot.size = 0


cdef void forget_all(KnownFields *fields) noexcept:
    cdef int at
    for at in range(KNOWN_SLOTS):
        forget(&fields.slots[at])
    fields.size = 0


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


cdef size_t slot_of(ng.rcbuf *name, ng.rcbuf *value) noexcept:
    """Number of the slot of a field; a field that had to leave it is in the slot with the last bit flipped."""
    cdef uint64_t mixed = ((<uint64_t> <size_t> name) * 31 + <uint64_t> <size_t> value) * 0x9E3779B97F4A7C15ULL
    return <size_t> (mixed >> 32) & (KNOWN_SLOTS - 1)


cdef tuple new_field(KnownFields *fields, size_t at, ng.rcbuf *name, ng.rcbuf *value, uint8_t flags):
    """A new field, remembered in slot `at` unless it is large, or is not to be kept anywhere (RFC 7541, 7.1.3)."""
    cdef Known *first = &fields.slots[at]
    cdef Known *second = &fields.slots[at ^ 1]
    cdef ng.vec name_text = ng.rcbuf_get_buf(name)
    cdef ng.vec value_text = ng.rcbuf_get_buf(value)
    cdef size_t size = name_text.len + value_text.len
    cdef tuple field = (
        name_of(name_text), PyBytes_FromStringAndSize(<const char *> value_text.base, <Py_ssize_t> value_text.len))
    if size > FIELD_BYTES_MAX or flags & ng.NV_FLAG_NO_INDEX:
        return field
    if fields.size + size > KNOWN_BYTES_MAX:
        forget_all(fields)
    if first.field != NULL:
        fields.size -= second.size
        forget(second)
        second[0] = first[0]
    fields.size += size
    ng.rcbuf_incref(name)
    ng.rcbuf_incref(value)
    Py_INCREF(field)
    first.name = name
    first.value = value
    first.field = <PyObject *> field
    first.size = size
    return field
