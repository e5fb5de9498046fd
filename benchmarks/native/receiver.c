#include "receiver.h"
#include "preface.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LONGEST_PACKET (16 << 10)
#define LONGEST_REPLY 64
#define LONGEST_NUMBER 20
#define MOST_DESCRIPTORS 2 // room to see that there is one too many
#define PACKETS_AT_ONCE 64
#define TYPE_NUMBER 0xF0
#define TYPE_OWED_ANSWER 0xF1

struct lifeline;

struct receiver {
    struct watch watch; // the listening socket
    enum role role;
    struct lifeline *lifeline; // one at a time, or NULL
};

struct lifeline {
    struct watch watch;
    struct receiver *receiver;
    struct connection *connections; // all that came through it
    char reply[LONGEST_REPLY];      // one that the sidecar had no room for: no packet is read before it is out
    size_t reply_length;
};

// One packet, taken apart. Points into the packet.
struct handed {
    int fd; // -1: none came
    char number[LONGEST_NUMBER + 1];
    const unsigned char *answer;
    size_t answer_length;
    const char *first_bytes;
    size_t first_length;
};

static void lifeline_end(struct lifeline *lifeline)
{
    struct receiver *receiver = lifeline->receiver;

    // Nobody is left who could cut them, so nothing of them may live on.
    while (lifeline->connections)
        connection_reset(lifeline->connections);
    watch_bury(&lifeline->watch);
    close(lifeline->watch.fd);
    receiver->lifeline = NULL;
    watch_change(&receiver->watch, EPOLLIN);
}

static void complain(const char *what)
{
    fprintf(stderr, "hand-over: %s; the lifeline ends\n", what);
}

// Sends the reply that waits. 0 when it is out or has to wait on, -1 when the lifeline is broken.
static int flush_reply(struct lifeline *lifeline)
{
    ssize_t sent = send(lifeline->watch.fd, lifeline->reply, lifeline->reply_length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN ? 0 : -1;
    lifeline->reply_length = 0;
    return 0;
}

static int reply(struct lifeline *lifeline, const char *verb, const char *number, const char *why)
{
    lifeline->reply_length = snprintf(lifeline->reply, LONGEST_REPLY, "%s %s%s", verb, number, why);
    return flush_reply(lifeline);
}

// The one descriptor of a message, or -1 where it isn't exactly one: then those that came are closed.
static int descriptor_of(struct msghdr *message)
{
    int came[MOST_DESCRIPTORS];
    size_t count = 0;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(came, CMSG_DATA(part), count * sizeof(int));
    }
    if (count == 1 && !(message->msg_flags & MSG_CTRUNC))
        return came[0];
    for (size_t i = 0; i < count; i++)
        close(came[i]);
    return -1;
}

static int take_apart(struct handed *handed, const unsigned char *packet, size_t length)
{
    if (length < PP2_HEADER_LENGTH)
        return -1;
    int rest = header_rest(packet);
    size_t addresses = address_length(packet[13]);
    if (rest < 0 || (size_t)rest < addresses || (size_t)rest > length - PP2_HEADER_LENGTH)
        return -1;

    const unsigned char *tlvs = packet + PP2_HEADER_LENGTH + addresses;
    size_t tlvs_length = rest - addresses;
    size_t number_length;
    const unsigned char *number = tlv_find(tlvs, tlvs_length, TYPE_NUMBER, &number_length);
    if (!number || !number_length || number_length > LONGEST_NUMBER)
        return -1;
    memcpy(handed->number, number, number_length);
    handed->number[number_length] = 0;
    handed->answer_length = 0;
    handed->answer = tlv_find(tlvs, tlvs_length, TYPE_OWED_ANSWER, &handed->answer_length);
    handed->first_bytes = (const char *)packet + PP2_HEADER_LENGTH + rest;
    handed->first_length = length - PP2_HEADER_LENGTH - rest;
    return 0;
}

static int take(struct lifeline *lifeline, const struct handed *handed)
{
    if (handed->fd < 0)
        return reply(lifeline, "refused", handed->number, " descriptors");

    // The answer is the first thing that the client gets. It fits: nothing was ever sent on this connection.
    if (handed->answer_length)
        send(handed->fd, handed->answer, handed->answer_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct connection *connection = connection_serve(handed->fd, lifeline->receiver->role, &lifeline->connections);
    if (reply(lifeline, "taken", handed->number, ""))
        return -1;
    if (handed->first_length)
        connection_first_bytes(connection, handed->first_bytes, handed->first_length);
    return 0;
}

// Reads one packet: 1 when there is none now, 0 when it is dealt with, -1 when the lifeline is over.
static int read_packet(struct lifeline *lifeline)
{
    static unsigned char packet[LONGEST_PACKET];
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    } control;
    struct iovec bytes = {packet, sizeof packet};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct handed handed;

    ssize_t length = recvmsg(lifeline->watch.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (length <= 0)
        return -1;
    handed.fd = descriptor_of(&message);
    if (message.msg_flags & MSG_TRUNC || take_apart(&handed, packet, length)) {
        complain("a packet isn't of format 1");
        if (handed.fd >= 0)
            close(handed.fd);
        return -1;
    }
    return take(lifeline, &handed);
}

static void lifeline_ready(struct watch *watch, uint32_t events)
{
    struct lifeline *lifeline = (struct lifeline *)watch;
    (void)events;

    if (lifeline->reply_length) {
        if (flush_reply(lifeline)) {
            lifeline_end(lifeline);
            return;
        }
        if (!lifeline->reply_length)
            watch_change(watch, EPOLLIN);
        return;
    }
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        int result = read_packet(lifeline);
        if (result < 0) {
            lifeline_end(lifeline);
            return;
        }
        if (lifeline->reply_length) {
            watch_change(watch, EPOLLOUT);
            return;
        }
        if (result > 0)
            return;
    }
}

static void receiver_ready(struct watch *watch, uint32_t events)
{
    struct receiver *receiver = (struct receiver *)watch;
    (void)events;

    int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct lifeline *lifeline = calloc(1, sizeof *lifeline);
    lifeline->watch.fd = fd;
    lifeline->watch.ready = lifeline_ready;
    lifeline->receiver = receiver;
    receiver->lifeline = lifeline;
    watch_change(watch, 0); // the next one waits in the backlog until this one has ended
    watch_add(&lifeline->watch, EPOLLIN);
    if (reply(lifeline, "ready", "1", ""))
        lifeline_end(lifeline);
}

void receiver_open(int listening, enum role role)
{
    struct receiver *receiver = calloc(1, sizeof *receiver);
    receiver->watch.fd = listening;
    receiver->watch.ready = receiver_ready;
    receiver->role = role;
    watch_add(&receiver->watch, EPOLLIN);
}
