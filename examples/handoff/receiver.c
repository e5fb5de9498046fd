/* A local process in C that takes connections over from its sidecar (docs/handoff.md): an echo.
 *
 *     cc -O2 -Wall -Wextra -o receiver receiver.c && ./receiver /run/replica/handoff.sock
 *
 * One thread, one poll(2). What a careful receiver does is here; what an application does is echo().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_PACKET = 16 * 1024, MAX_OPEN = 1024, TYPE_NUMBER = 0xF0, TYPE_ANSWER = 0xF1 };

static struct pollfd open_fds[MAX_OPEN]; /* connections that came through the present lifeline */
static int open_count;

/* In order: the client and the sidecar see the end. close() alone would end nothing, the sidecar has a duplicate. */
static void finish(int fd) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* Not in order: the client gets an RST. */
static void reset(int fd) {
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (connect(fd, &nowhere, sizeof nowhere) != 0)
        shutdown(fd, SHUT_RDWR);
    close(fd);
}

/* A real application must take care of what send() doesn't take at once: the descriptor doesn't block. */
static int echo(int fd, const unsigned char *data, size_t size) {
    return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Says what became of hand-over `number`: "taken 7", or "refused 7 full". */
static int reply(int lifeline, const char *word, const char *number, const char *why) {
    char text[64];
    int size = snprintf(text, sizeof text, "%s %s%s%s", word, number, *why ? " " : "", why);
    return send(lifeline, text, (size_t)size, MSG_NOSIGNAL) == size;
}

/* Takes what one packet brings. 0: the lifeline has ended, or broke the rules. */
static int take(int lifeline) {
    static unsigned char packet[MAX_PACKET];
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {packet, sizeof packet};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t size = recvmsg(lifeline, &message, MSG_CMSG_CLOEXEC);
    if (size <= 0)
        return 0;
    int fd = -1;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&message); each; each = CMSG_NXTHDR(&message, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(each), sizeof fd);

    /* The header: 16 bytes, the addresses, then type-length-value triples up to its end. */
    if (size < 16 || memcmp(packet, "\r\n\r\n\0\r\nQUIT\n", 12) != 0)
        return 0;
    size_t end = 16 + ((size_t)packet[14] << 8 | packet[15]);
    static const size_t address_sizes[] = {0, 12, 36, 216};
    size_t at = 16 + address_sizes[packet[13] >> 4 & 3];
    char number[21] = "";
    const unsigned char *answer = NULL;
    size_t answer_size = 0;
    while (end <= (size_t)size && at + 3 <= end) {
        size_t length = (size_t)packet[at + 1] << 8 | packet[at + 2];
        if (at + 3 + length > end)
            return 0;
        if (packet[at] == TYPE_NUMBER && length < sizeof number)
            memcpy(number, packet + at + 3, length);
        if (packet[at] == TYPE_ANSWER)
            answer = packet + at + 3, answer_size = length;
        at += 3 + length;
    }
    if (at != end || !*number)
        return 0;

    if (fd == -1) /* the kernel had no descriptor left for it: MSG_CTRUNC is set */
        return reply(lifeline, "refused", number, "descriptors");
    if (open_count == MAX_OPEN) {
        close(fd);
        return reply(lifeline, "refused", number, "full");
    }
    /* The answer goes before any byte of ours. What the sidecar has read of the client stands behind the header. */
    int sound = answer_size == 0 || send(fd, answer, answer_size, MSG_NOSIGNAL) == (ssize_t)answer_size;
    if (!reply(lifeline, "taken", number, "")) {
        reset(fd);
        return 0;
    }
    if (sound && ((size_t)size == end || echo(fd, packet + end, (size_t)size - end)))
        open_fds[open_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    else
        reset(fd);
    return 1;
}

/* Serves one lifeline to its end, and leaves nothing of what came through it. */
static void serve(int lifeline) {
    if (send(lifeline, "ready 1", 7, MSG_NOSIGNAL) != 7)
        return;
    for (int alive = 1; alive;) {
        struct pollfd wait[1 + MAX_OPEN];
        wait[0] = (struct pollfd){.fd = lifeline, .events = POLLIN};
        memcpy(wait + 1, open_fds, (size_t)open_count * sizeof *open_fds);
        int count = open_count;
        if (poll(wait, 1 + (nfds_t)count, -1) < 0 && errno != EINTR)
            break;
        for (int i = count; i-- > 0;) { /* from the end, since the last one takes the place of one that goes */
            if (!wait[1 + i].revents)
                continue;
            unsigned char data[65536];
            ssize_t size = recv(open_fds[i].fd, data, sizeof data, MSG_DONTWAIT);
            if (size < 0 && errno == EAGAIN)
                continue;
            if (size > 0 && echo(open_fds[i].fd, data, (size_t)size))
                continue;
            if (size == 0)
                finish(open_fds[i].fd);
            else
                reset(open_fds[i].fd); /* it broke, or the sidecar has cut it */
            open_fds[i] = open_fds[--open_count];
        }
        if (wait[0].revents)
            alive = take(lifeline);
    }
    while (open_count > 0)
        reset(open_fds[--open_count].fd);
}

int main(int count, char **arguments) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (count != 2 || strlen(arguments[1]) >= sizeof address.sun_path)
        return fprintf(stderr, "usage: receiver /path/of/the/socket\n"), 2;
    strcpy(address.sun_path, arguments[1]);
    unlink(arguments[1]);
    int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listening < 0 || bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 1))
        return perror("receiver"), 1;
    printf("ready\n");
    fflush(stdout);
    for (;;) { /* one lifeline at a time: the next one is told "ready" when nothing of this one is left */
        int lifeline = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
        if (lifeline < 0)
            continue;
        serve(lifeline);
        close(lifeline);
    }
}
