/* Replaces GnuTLS where libmicrohttpd is linked statically (make wheel). The
 * static library refers to functions of GnuTLS, but calls them only for TLS
 * connections, which `serve` does not have. */
#include <stdlib.h>

#define FAILING(use)                                                           \
    use(alpn_set_protocols) use(bye) use(certificate_allocate_credentials)     \
        use(certificate_free_credentials) use(certificate_server_set_request)  \
            use(certificate_set_dh_params)                                     \
                use(certificate_set_retrieve_function2)                        \
                    use(certificate_set_retrieve_function3)                    \
                        use(certificate_set_x509_key_mem)                      \
                            use(certificate_set_x509_key_mem2)                 \
                                use(certificate_set_x509_trust_mem)            \
                                    use(cipher_get) use(credentials_set)       \
                                        use(deinit) use(dh_params_deinit)
#define FAILING_TOO(use)                                                       \
    use(dh_params_import_pkcs3) use(dh_params_init) use(handshake) use(init)   \
        use(priority_deinit) use(priority_init) use(priority_set)              \
            use(protocol_get_version) use(psk_allocate_server_credentials)     \
                use(psk_free_server_credentials)                               \
                    use(psk_set_server_credentials_function)                   \
                        use(record_check_pending) use(record_get_direction)    \
                            use(record_recv) use(record_send)                  \
                                use(session_get_ptr) use(session_set_ptr)      \
                                    use(strerror) use(transport_set_int2)
#define DEFINE(name)                                                           \
    long gnutls_##name(void);                                                  \
    long gnutls_##name(void)                                                   \
    {                                                                          \
        return -1;                                                             \
    }
FAILING(DEFINE)
FAILING_TOO(DEFINE)

/* libmicrohttpd calls these two functions when a program starts and ends. */
#define DEFINE_EMPTY(name)                                                     \
    int gnutls_##name(void);                                                   \
    int gnutls_##name(void)                                                    \
    {                                                                          \
        return 0;                                                              \
    }
DEFINE_EMPTY(global_init)
DEFINE_EMPTY(global_deinit)

extern void *(*gnutls_malloc)(size_t size);
void *(*gnutls_malloc)(size_t size) = malloc;
