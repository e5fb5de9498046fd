// One client connection of loadgen: TCP or TLS, with or without a preface. All calls block.
#ifndef CLIENT_H
#define CLIENT_H

#include "preface.h"

#include <netinet/in.h>
#include <openssl/ssl.h>

// What all clients of a run have in common.
struct dial {
    struct sockaddr_in address;
    struct preface preface; // length 0: none is sent
    bool wants_answer;
    SSL_CTX *tls; // NULL: plain
};

struct client {
    int fd;
    SSL *tls;
};

enum dialled {
    DIALLED = 0,
    NOT_CONNECTED,
    NO_HANDSHAKE,
    NOT_ADMITTED, // the preface couldn't be written, or the answer isn't `admitted`
};

SSL_CTX *client_tls(const char *ca, const char *certificate, const char *key);

// Connects, and shakes hands where TLS is used. `source` chooses a loopback address to come from, 0 leaves that to the
// kernel: many connections a second need more ports than one address has.
enum dialled client_connect(struct client *client, const struct dial *dial, int source);

// The same, then sends the preface and awaits the answer that it asks for.
enum dialled client_open(struct client *client, const struct dial *dial, int source);

// Reads the answer, where one was asked for, up to its last byte. 0, or -1 where it doesn't say `admitted`.
int client_await_answer(struct client *client, const struct dial *dial);

int client_write(struct client *client, const void *bytes, size_t length); // all of it: 0, or -1
int client_read(struct client *client, void *bytes, size_t room);          // as recv
int client_read_all(struct client *client, void *bytes, size_t length);    // exactly: 0, or -1
int client_discard(struct client *client, void *bytes, size_t room);       // the same, and the bytes don't matter
void client_close(struct client *client);

#endif
