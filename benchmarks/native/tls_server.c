#include "tls_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (256 << 10)
#define STACK_BYTES (128 << 10)

struct served {
    int fd;
    enum role role;
};

static SSL_CTX *context;

void tls_server_open(const char *ca, const char *certificate, const char *key)
{
    context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    int usable = SSL_CTX_load_verify_locations(context, ca, NULL) == 1;
    usable = usable && SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) == 1;
    usable = usable && SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
    if (!usable) {
        ERR_print_errors_fp(stderr);
        exit(1);
    }
}

static void exchange(SSL *tls, enum role role)
{
    char *buffer = malloc(BUFFER_BYTES);
    uint64_t received = 0;

    for (;;) {
        int got = SSL_read(tls, buffer, BUFFER_BYTES);
        if (got <= 0)
            break;
        if (role == ECHO) {
            if (SSL_write(tls, buffer, got) <= 0)
                break;
            continue;
        }
        uint64_t acknowledged = received / ACKED_BYTES;
        received += got;
        for (; acknowledged < received / ACKED_BYTES; acknowledged++)
            SSL_write(tls, "k", 1);
    }
    free(buffer);
}

static void *serve_one(void *argument)
{
    struct served *served = argument;
    SSL *tls = SSL_new(context);

    SSL_set_fd(tls, served->fd);
    if (SSL_accept(tls) == 1)
        exchange(tls, served->role);
    SSL_free(tls);
    close(served->fd);
    free(served);
    return NULL;
}

static void start_serving(int fd, enum role role)
{
    struct served *served = malloc(sizeof *served);
    pthread_attr_t attributes;
    pthread_t thread;
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    served->fd = fd;
    served->role = role;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, serve_one, served)) {
        close(fd);
        free(served);
    }
    pthread_attr_destroy(&attributes);
}

static void *accept_all(void *argument)
{
    struct served *listening = argument;
    for (;;) {
        int fd = accept4(listening->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            start_serving(fd, listening->role);
    }
    return NULL;
}

void tls_server_serve(int listening, enum role role)
{
    struct served *served = malloc(sizeof *served);
    pthread_t thread;

    served->fd = listening;
    served->role = role;
    if (pthread_create(&thread, NULL, accept_all, served)) {
        perror("pthread_create");
        exit(1);
    }
}
