/* A local process that takes connections over from its sidecar (docs/handoff.md) and sends every byte back.
 *
 *     cc -O2 -o receiver examples/handoff/receiver.c && ./receiver /run/replica/handoff.sock
 *
 * One thread, one poll(2). The functions from serve_lifeline() up are what a receiver needs, whatever it does with its
 * connections; echo() stands for the application. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 1000, PACKET = 16 * 1024, HEADER = 16 };
enum { TLV_IDENTITY = 0xE5, TLV_NUMBER = 0xF0, TLV_ANSWER = 0xF1 };

struct text {
    const unsigned char *bytes;
    size_t length;
};

struct offer { /* what a packet says */
    struct text number, identity, answer, first;
};

struct connection {
    int fd;
    unsigned char buffer[PACKET]; /* what is still to be sent back */
    size_t start, end;
};

static struct connection *connections[MOST_CONNECTIONS];
static size_t open_connections;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* ---- A connection: a socket that the sidecar holds too ---- */

/* End it in order. close() alone would leave it open for the client: the sidecar has a duplicate. */
static void finish(int fd) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* Break it: the client gets an RST. SO_LINGER would do nothing, since the last close is the sidecar's. */
static void reset(int fd) {
    const struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
    if (connect(fd, &unspecified, sizeof unspecified) != 0)
        shutdown(fd, SHUT_RDWR); /* a Unix socket, which knows no reset */
    close(fd);
}

static void forget(size_t index) {
    free(connections[index]);
    connections[index] = connections[--open_connections];
}

/* ---- The application ---- */

static void add(int fd, const struct offer *offer) {
    struct connection *added = calloc(1, sizeof *added);
    if (added == NULL)
        die("calloc");
    added->fd = fd;
    memcpy(added->buffer, offer->first.bytes, offer->first.length); /* the first bytes that were received */
    added->end = offer->first.length;
    connections[open_connections++] = added;
    printf("a client of %.*s\n", (int)offer->identity.length, (const char *)offer->identity.bytes);
}

static bool has_nothing_to_send(const struct connection *c) {
    return c->start == c->end;
}

/* One step; false when the connection has ended or is broken, as it is when the sidecar has cut it. */
static bool echo(struct connection *c) {
    if (has_nothing_to_send(c)) {
        ssize_t got = recv(c->fd, c->buffer, sizeof c->buffer, 0);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        c->start = 0;
        c->end = (size_t)got;
    }
    ssize_t sent = send(c->fd, c->buffer + c->start, c->end - c->start, MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    c->start += (size_t)sent;
    return true;
}

/* ---- The hand-over ---- */

static bool say(int lifeline, const char *word, struct text number, const char *why) {
    char message[128];
    int length = snprintf(message, sizeof message, "%s %.*s%s", word, (int)number.length, (const char *)number.bytes, why);
    return send(lifeline, message, (size_t)length, MSG_NOSIGNAL) == length;
}

/* Read a PROXY v2 header and what follows it. False where it is none, or lacks what a hand-over needs. */
static bool read_offer(const unsigned char *packet, size_t length, struct offer *offer) {
    static const size_t addresses[] = {0, 12, 36, 216}; /* by family: none, IPv4, IPv6, Unix */
    *offer = (struct offer){0};
    if (length < HEADER || memcmp(packet, "\r\n\r\n\0\r\nQUIT\n", 12) != 0 || packet[12] != 0x21 || packet[13] >> 4 > 3)
        return false;
    size_t end = HEADER + ((size_t)packet[14] << 8 | packet[15]);
    size_t at = HEADER + addresses[packet[13] >> 4];
    if (end > length || at > end)
        return false;
    while (at < end) {
        if (end - at < 3)
            return false;
        struct text value = {packet + at + 3, (size_t)packet[at + 1] << 8 | packet[at + 2]};
        if (value.length > end - at - 3)
            return false;
        if (packet[at] == TLV_NUMBER)
            offer->number = value;
        else if (packet[at] == TLV_IDENTITY)
            offer->identity = value;
        else if (packet[at] == TLV_ANSWER)
            offer->answer = value;
        at += 3 + value.length;
    }
    offer->first = (struct text){packet + end, length - end};
    return offer->number.length >= 1 && offer->number.length <= 20 && offer->identity.length >= 1;
}

/* Take one packet from the lifeline. False when the lifeline has ended, or broke the rules. */
static bool take(int lifeline) {
    unsigned char packet[PACKET];
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(2 * sizeof(int))]; /* room for one too many, to notice it */
    } rights;
    struct iovec data = {packet, sizeof packet};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
    ssize_t length = recvmsg(lifeline, &message, MSG_CMSG_CLOEXEC);
    if (length < 0)
        return errno == EINTR;

    int fds[2] = {-1, -1};
    size_t count = 0;
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(part), count * sizeof(int));
    }
    bool lost = message.msg_flags & MSG_CTRUNC;
    struct offer offer;
    bool sound = !(message.msg_flags & MSG_TRUNC) && read_offer(packet, (size_t)length, &offer);

    if (sound && count == 0 && lost)
        return say(lifeline, "refused", offer.number, " descriptors");
    if (!sound || count != 1 || lost) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        if (length > 0)
            fprintf(stderr, "what came through the lifeline is no hand-over\n");
        return false;
    }
    if (open_connections == MOST_CONNECTIONS) {
        close(fds[0]); /* close alone: the client is still the sidecar's */
        return say(lifeline, "refused", offer.number, " full");
    }
    /* The answer goes first, and it fits: nothing has been sent on this connection yet. */
    bool sent = send(fds[0], offer.answer.bytes, offer.answer.length, MSG_NOSIGNAL) == (ssize_t)offer.answer.length;
    bool told = say(lifeline, "taken", offer.number, "");
    if (sent && told)
        add(fds[0], &offer);
    else
        reset(fds[0]);
    return told;
}

/* From a new lifeline to its end. Nothing of it is left when this returns. */
static void serve_lifeline(int lifeline) {
    static struct pollfd waiting[1 + MOST_CONNECTIONS];
    bool alive = say(lifeline, "ready", (struct text){(const unsigned char *)"1", 1}, "");
    while (alive) {
        size_t count = open_connections;
        waiting[0] = (struct pollfd){.fd = lifeline, .events = POLLIN};
        for (size_t i = 0; i < count; i++)
            waiting[1 + i] = (struct pollfd){
                .fd = connections[i]->fd, .events = has_nothing_to_send(connections[i]) ? POLLIN : POLLOUT};
        if (poll(waiting, 1 + count, -1) < 0 && errno != EINTR)
            die("poll");
        if (waiting[0].revents != 0) /* first, so that nothing is served any more after the lifeline's end */
            alive = take(lifeline);
        for (size_t i = count; alive && i-- > 0;) /* from the end, since forget() moves the last one */
            if (waiting[1 + i].revents != 0 && !echo(connections[i])) {
                finish(connections[i]->fd);
                forget(i);
            }
    }
    while (open_connections > 0) {
        reset(connections[open_connections - 1]->fd);
        forget(open_connections - 1);
    }
    close(lifeline);
}

/* Whether root or this process's own user has connected. */
static bool is_a_sidecar(int lifeline) {
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(lifeline, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return false;
    return peer.uid == 0 || peer.uid == geteuid();
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "%s is too long for a socket's path\n", path);
        exit(1);
    }
    strcpy(address.sun_path, path);
    int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(probe, (struct sockaddr *)&address, sizeof address) != 0 && errno == ECONNREFUSED)
        unlink(path); /* a dead process has left it; a live one is left alone, and bind() fails */
    close(probe);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        die(path);
    if (chmod(path, 0660) != 0 || listen(fd, 16) != 0)
        die(path);
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return 2;
    }
    int listening = listen_at(argv[1]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (;;) {
        int lifeline = accept4(listening, NULL, NULL, SOCK_CLOEXEC); /* one at a time */
        if (lifeline < 0) {
            perror("accept");
            sleep(1);
        } else if (is_a_sidecar(lifeline)) {
            serve_lifeline(lifeline);
        } else {
            close(lifeline);
        }
    }
}
