#include "roles.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_BYTES (256 << 10)
#define SOURCE_BYTES (64 << 10)

static char buffer[BUFFER_BYTES];

const char *role_name(enum role role)
{
    static const char *names[ROLES] = {"echo", "sink", "source"};
    return names[role];
}

static bool is_no_more_now(ssize_t result)
{
    return result < 0 && (errno == EAGAIN || errno == EINTR);
}

static void leave_family(struct connection *connection)
{
    if (!connection->link)
        return;
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
}

static void let_go(struct connection *connection)
{
    leave_family(connection);
    watch_bury(&connection->watch);
    close(connection->watch.fd);
    free(connection->unsent);
}

void connection_end(struct connection *connection)
{
    // The sidecar's duplicate keeps a shared connection open: only shutdown tells the client that it is over.
    if (connection->handed_over)
        shutdown(connection->watch.fd, SHUT_RDWR);
    let_go(connection);
}

void connection_reset(struct connection *connection)
{
    // SO_LINGER acts when the last duplicate is closed; disconnecting acts now.
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    connect(connection->watch.fd, &nowhere, sizeof nowhere);
    let_go(connection);
}

// --- echo -------------------------------------------------------------------------------------------------------------

static void keep_unsent(struct connection *connection, const char *bytes, size_t length)
{
    connection->unsent = malloc(length);
    memcpy(connection->unsent, bytes, length);
    connection->unsent_length = length;
    connection->unsent_from = 0;
    watch_change(&connection->watch, EPOLLOUT);
}

static void echo_back(struct connection *connection, const char *bytes, size_t length)
{
    while (length) {
        ssize_t written = send(connection->watch.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (is_no_more_now(written)) {
            keep_unsent(connection, bytes, length);
            return;
        }
        if (written < 0) {
            connection_end(connection);
            return;
        }
        bytes += written;
        length -= written;
    }
}

static void send_unsent(struct connection *connection)
{
    const char *bytes = connection->unsent + connection->unsent_from;
    size_t length = connection->unsent_length - connection->unsent_from;
    ssize_t written = send(connection->watch.fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (is_no_more_now(written))
        return;
    if (written < 0) {
        connection_end(connection);
        return;
    }
    connection->unsent_from += written;
    if (connection->unsent_from == connection->unsent_length) {
        free(connection->unsent);
        connection->unsent = NULL;
        watch_change(&connection->watch, EPOLLIN);
    }
}

static void echo_ready(struct connection *connection)
{
    if (connection->unsent) {
        send_unsent(connection);
        return;
    }
    ssize_t got = recv(connection->watch.fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0)
        echo_back(connection, buffer, got);
    else if (!is_no_more_now(got))
        connection_end(connection);
}

// --- sink -------------------------------------------------------------------------------------------------------------

static void count_received(struct connection *connection, size_t length)
{
    uint64_t acknowledged = connection->received / ACKED_BYTES;
    connection->received += length;
    for (; acknowledged < connection->received / ACKED_BYTES; acknowledged++)
        send(connection->watch.fd, "k", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void sink_ready(struct connection *connection)
{
    // On TCP, MSG_TRUNC takes the bytes without copying them; Unix sockets copy all the same.
    ssize_t got = recv(connection->watch.fd, buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC);
    if (got > 0)
        count_received(connection, got);
    else if (!is_no_more_now(got))
        connection_end(connection);
}

// --- source -----------------------------------------------------------------------------------------------------------

static void source_ready(struct connection *connection, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t got = recv(connection->watch.fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got <= 0 && !is_no_more_now(got)) {
            connection_end(connection);
            return;
        }
    }
    if (events & EPOLLOUT) {
        ssize_t written = send(connection->watch.fd, buffer, SOURCE_BYTES, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (written < 0 && !is_no_more_now(written))
            connection_end(connection);
    }
}

// --- all of them ------------------------------------------------------------------------------------------------------

static void connection_ready(struct watch *watch, uint32_t events)
{
    struct connection *connection = (struct connection *)watch;
    switch (connection->role) {
    case ECHO:
        echo_ready(connection);
        break;
    case SINK:
        sink_ready(connection);
        break;
    case SOURCE:
        source_ready(connection, events);
        break;
    }
}

struct connection *connection_serve(int fd, enum role role, struct connection **family)
{
    struct connection *connection = calloc(1, sizeof *connection);
    connection->watch.fd = fd;
    connection->watch.ready = connection_ready;
    connection->role = role;
    if (family) {
        connection->handed_over = true;
        connection->next = *family;
        connection->link = family;
        if (connection->next)
            connection->next->link = &connection->next;
        *family = connection;
    }
    watch_add(&connection->watch, role == SOURCE ? EPOLLIN | EPOLLOUT : EPOLLIN);
    return connection;
}

void connection_first_bytes(struct connection *connection, const char *bytes, size_t length)
{
    switch (connection->role) {
    case ECHO:
        echo_back(connection, bytes, length);
        break;
    case SINK:
        count_received(connection, length);
        break;
    case SOURCE:
        break;
    }
}
