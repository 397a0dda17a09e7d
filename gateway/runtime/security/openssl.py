"""The functions of OpenSSL 3 that DTLS needs, called without a compiler: `cffi` loads the library that Python itself uses."""

from __future__ import annotations

import ctypes.util
from functools import cache
from typing import Any, Final

import cffi

_DECLARATIONS: Final = """
    typedef struct ssl_st SSL; typedef struct ssl_ctx_st SSL_CTX; typedef struct bio_st BIO; typedef struct x509_st X509;
    typedef struct bio_addr_st BIO_ADDR;
    struct timeval { long tv_sec; long tv_usec; };
    const void *DTLS_server_method(void);
    SSL_CTX *SSL_CTX_new(const void *method);
    void SSL_CTX_free(SSL_CTX *ctx);
    long SSL_CTX_ctrl(SSL_CTX *ctx, int cmd, long larg, void *parg);
    uint64_t SSL_CTX_set_options(SSL_CTX *ctx, uint64_t options);
    int SSL_CTX_set_cipher_list(SSL_CTX *ctx, const char *text);
    int SSL_CTX_use_certificate_chain_file(SSL_CTX *ctx, const char *file);
    int SSL_CTX_use_PrivateKey_file(SSL_CTX *ctx, const char *file, int type);
    int SSL_CTX_load_verify_locations(SSL_CTX *ctx, const char *file, const char *folder);
    void SSL_CTX_set_verify(SSL_CTX *ctx, int mode, void *callback);
    void SSL_CTX_set_psk_server_callback(
        SSL_CTX *ctx, unsigned int (*callback)(SSL *ssl, const char *identity, unsigned char *psk, unsigned int max));
    void SSL_CTX_set_cookie_generate_cb(SSL_CTX *ctx, int (*callback)(SSL *ssl, unsigned char *cookie, unsigned int *size));
    void SSL_CTX_set_cookie_verify_cb(SSL_CTX *ctx, int (*callback)(SSL *ssl, const unsigned char *cookie, unsigned int size));
    SSL *SSL_new(SSL_CTX *ctx);
    void SSL_free(SSL *ssl);
    long SSL_ctrl(SSL *ssl, int cmd, long larg, void *parg);
    void SSL_set_bio(SSL *ssl, BIO *in, BIO *out);
    int DTLSv1_listen(SSL *ssl, BIO_ADDR *client);
    int SSL_accept(SSL *ssl);
    int SSL_read(SSL *ssl, void *buffer, int size);
    int SSL_write(SSL *ssl, const void *data, int size);
    int SSL_shutdown(SSL *ssl);
    int SSL_get_error(const SSL *ssl, int result);
    int SSL_is_init_finished(const SSL *ssl);
    const char *SSL_state_string(const SSL *ssl);
    X509 *SSL_get1_peer_certificate(const SSL *ssl);
    BIO *BIO_new(const void *kind);
    const void *BIO_s_mem(void);
    int BIO_write(BIO *bio, const void *data, int size);
    int BIO_read(BIO *bio, void *buffer, int size);
    long BIO_ctrl(BIO *bio, int cmd, long larg, void *parg);
    BIO_ADDR *BIO_ADDR_new(void);
    void BIO_ADDR_free(BIO_ADDR *address);
    int i2d_X509(X509 *certificate, unsigned char **out);
    void X509_free(X509 *certificate);
    const void *SSL_get_current_cipher(const SSL *ssl);
    const char *SSL_CIPHER_get_name(const void *cipher);
    void ERR_clear_error(void);
    unsigned long ERR_get_error(void);
    void ERR_error_string_n(unsigned long error, char *text, size_t size);
"""

ffi: Final[Any] = cffi.FFI()
ffi.cdef(_DECLARATIONS)

OP_NO_QUERY_MTU: Final = 1 << 12
OP_COOKIE_EXCHANGE: Final = 1 << 13
OP_NO_TICKET: Final = 1 << 14
OP_NO_COMPRESSION: Final = 1 << 17
OP_CIPHER_SERVER_PREFERENCE: Final = 1 << 22
OP_NO_RENEGOTIATION: Final = 1 << 30
CTRL_SET_MTU: Final = 17
CTRL_SET_SESSION_CACHE: Final = 44
CTRL_GET_TIMEOUT: Final = 73
CTRL_HANDLE_TIMEOUT: Final = 74
CTRL_SET_MIN_VERSION: Final = 123
DTLS_1_2: Final = 0xFEFD
VERIFY_PEER: Final = 1
ERROR_WANT_READ: Final = 2
ERROR_WANT_WRITE: Final = 3
FILE_PEM: Final = 1
BIO_SET_EOF_RETURN: Final = 130
BIO_PENDING: Final = 10


@cache
def library() -> Any:
    """The functions; None: this system has no OpenSSL 3, or one that lacks a function."""
    names = ["libssl.so.3", ctypes.util.find_library("ssl")]
    for name in names:
        try:
            found = ffi.dlopen(name) if name else None
        except OSError:
            continue
        if found is not None and all(hasattr(found, wanted) for wanted in ("SSL_get1_peer_certificate", "DTLSv1_listen")):
            return found
    return None


def last_error(lib: Any) -> str:
    """The text of the oldest error of OpenSSL's queue."""
    text = ffi.new("char[256]")
    lib.ERR_error_string_n(lib.ERR_get_error(), text, 256)
    return bytes(ffi.string(text)).decode("ascii", "replace")
