// What the backend does with a connection, however it came by it.
#ifndef ROLES_H
#define ROLES_H

#include "loop.h"

#include <stddef.h>

#define ACKED_BYTES (16u << 20) // the sink answers one byte for each so many

enum role {
    ECHO,   // sends back what it gets
    SINK,   // takes what it gets, and says now and then how much that was
    SOURCE, // sends as fast as it goes
};

#define ROLES 3

const char *role_name(enum role role);

struct connection {
    struct watch watch;
    enum role role;
    uint64_t received; // of a sink
    char *unsent;      // of an echo: what the peer has no room for; nothing is read meanwhile
    size_t unsent_length;
    size_t unsent_from;
    bool handed_over; // the sidecar holds a duplicate of the descriptor
    struct connection *next;
    struct connection **link; // what points to it in the list of its kind
};

// Takes over a non-blocking descriptor. With `family`, it stands in that list until it ends, and is one that was handed
// over.
struct connection *connection_serve(int fd, enum role role, struct connection **family);

// Bytes that were read before the descriptor came. The connection may end by them, and be gone.
void connection_first_bytes(struct connection *connection, const char *bytes, size_t length);

void connection_end(struct connection *connection);
void connection_reset(struct connection *connection); // the peer gets an RST

#endif
