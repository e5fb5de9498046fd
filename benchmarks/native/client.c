#include "client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

#define PATIENCE_SECONDS 10
#define FIRST_SOURCE 0x7f000002 // 127.0.0.2
#define MOST_TLS_BYTES (256 << 10)

SSL_CTX *client_tls(const char *ca, const char *certificate, const char *key)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    if (ca) {
        SSL_CTX_load_verify_locations(tls, ca, NULL);
        SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
    }
    if (certificate) {
        int usable = SSL_CTX_use_certificate_file(tls, certificate, SSL_FILETYPE_PEM) == 1;
        usable = usable && key && SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1;
        if (!usable) {
            ERR_print_errors_fp(stderr);
            exit(1);
        }
    }
    return tls;
}

static void come_from(int fd, int source)
{
    int on = 1;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(FIRST_SOURCE + source)};

    // The port is chosen by connect, which may take one that another destination has in use.
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&own, sizeof own))
        perror("bind");
}

static int shake_hands(struct client *client, SSL_CTX *context)
{
    client->tls = SSL_new(context);
    SSL_set_fd(client->tls, client->fd);
    if (SSL_connect(client->tls) == 1)
        return 0;
    SSL_free(client->tls);
    client->tls = NULL;
    return -1;
}

enum dialled client_connect(struct client *client, const struct dial *dial, int source)
{
    int on = 1;
    struct timeval patience = {PATIENCE_SECONDS, 0};

    client->tls = NULL;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0)
        return NOT_CONNECTED;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(client->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(client->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (source)
        come_from(client->fd, source);
    if (connect(client->fd, (const struct sockaddr *)&dial->address, sizeof dial->address)) {
        close(client->fd);
        return NOT_CONNECTED;
    }
    if (dial->tls && shake_hands(client, dial->tls)) {
        close(client->fd);
        return NO_HANDSHAKE;
    }
    return DIALLED;
}

enum dialled client_open(struct client *client, const struct dial *dial, int source)
{
    enum dialled dialled = client_connect(client, dial, source);
    if (dialled != DIALLED)
        return dialled;
    int failed = client_write(client, dial->preface.bytes, dial->preface.length);
    failed = failed || client_await_answer(client, dial);
    if (!failed)
        return DIALLED;
    client_close(client);
    return NOT_ADMITTED;
}

int client_await_answer(struct client *client, const struct dial *dial)
{
    unsigned char header[PP2_HEADER_LENGTH];
    unsigned char rest[1024];

    if (!dial->wants_answer)
        return 0;
    if (client_read_all(client, header, sizeof header))
        return -1;
    int length = header_rest(header);
    size_t addresses = address_length(header[13]);
    if (length < 0 || (size_t)length > sizeof rest || (size_t)length < addresses)
        return -1;
    if (client_read_all(client, rest, length))
        return -1;

    size_t verdict_length;
    const unsigned char *verdict = tlv_find(rest + addresses, length - addresses, TYPE_ANSWER, &verdict_length);
    if (!verdict || verdict_length != strlen("admitted") || memcmp(verdict, "admitted", verdict_length))
        return -1;
    return 0;
}

int client_write(struct client *client, const void *bytes, size_t length)
{
    const char *position = bytes;
    while (length) {
        ssize_t written;
        if (client->tls)
            written = SSL_write(client->tls, position, length);
        else
            written = send(client->fd, position, length, MSG_NOSIGNAL);
        if (written <= 0)
            return -1;
        position += written;
        length -= written;
    }
    return 0;
}

int client_read(struct client *client, void *bytes, size_t room)
{
    if (client->tls)
        return SSL_read(client->tls, bytes, room);
    return recv(client->fd, bytes, room, 0);
}

int client_read_all(struct client *client, void *bytes, size_t length)
{
    char *position = bytes;
    while (length) {
        int got = client_read(client, position, length);
        if (got <= 0)
            return -1;
        position += got;
        length -= got;
    }
    return 0;
}

int client_discard(struct client *client, void *bytes, size_t room)
{
    if (client->tls)
        return SSL_read(client->tls, bytes, room < MOST_TLS_BYTES ? room : MOST_TLS_BYTES);
    // On TCP, MSG_TRUNC takes the bytes without copying them: the copy would be our cost, and hide the proxy's.
    return recv(client->fd, bytes, room, MSG_TRUNC);
}

void client_close(struct client *client)
{
    if (client->tls) {
        SSL_shutdown(client->tls);
        SSL_free(client->tls);
        client->tls = NULL;
    }
    close(client->fd);
}
