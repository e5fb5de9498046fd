// 8 MiB of a pattern through the echo and back, with a half-close at their end: every byte is compared.
#include "load.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#define HALF_BYTES (8L << 20)
#define PATIENCE_MILLISECONDS 10000

struct pattern {
    unsigned state;
};

static char next_byte(struct pattern *pattern)
{
    pattern->state = pattern->state * 1103515245 + 12345;
    return pattern->state >> 16;
}

struct half_run {
    struct client client;
    struct pattern written;
    struct pattern expected;
    char block[50000];
    size_t block_length;
    size_t block_sent;
    long sent;
    long got;
    long wrong;
    bool finished_writing;
};

static int half_write(struct half_run *run)
{
    if (run->block_sent == run->block_length) {
        long left = HALF_BYTES - run->sent;
        run->block_length = left < (long)sizeof run->block ? left : (long)sizeof run->block;
        run->block_sent = 0;
        for (size_t i = 0; i < run->block_length; i++)
            run->block[i] = next_byte(&run->written);
    }
    ssize_t written = send(run->client.fd, run->block + run->block_sent, run->block_length - run->block_sent,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0)
        return errno == EAGAIN ? 0 : -1;
    run->block_sent += written;
    run->sent += written;
    if (run->sent == HALF_BYTES) {
        shutdown(run->client.fd, SHUT_WR);
        run->finished_writing = true;
    }
    return 0;
}

// 1 at the end of the stream, 0 while there is more, -1 on an error.
static int half_read(struct half_run *run)
{
    char bytes[65536];
    ssize_t got = recv(run->client.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0)
        return 1;
    if (got < 0)
        return errno == EAGAIN ? 0 : -1;
    for (ssize_t i = 0; i < got; i++)
        if (bytes[i] != next_byte(&run->expected))
            run->wrong++;
    run->got += got;
    return 0;
}

void run_half(void)
{
    struct half_run run = {.written = {1}, .expected = {1}};
    double before = now();
    int failed = client_open(&run.client, &options.dial, 0) == DIALLED ? 0 : -1;
    int ended = 0;

    while (!failed && !ended) {
        struct pollfd wanted = {run.client.fd, POLLIN, 0};
        if (!run.finished_writing)
            wanted.events |= POLLOUT;
        if (poll(&wanted, 1, PATIENCE_MILLISECONDS) <= 0) {
            failed = -1;
            break;
        }
        if (wanted.revents & POLLOUT && !run.finished_writing)
            failed = half_write(&run);
        if (!failed && wanted.revents & (POLLIN | POLLHUP | POLLERR)) {
            int result = half_read(&run);
            ended = result == 1;
            failed = result < 0 ? -1 : 0;
        }
    }
    bool good = !failed && run.got == HALF_BYTES && !run.wrong;
    printf("{\"mode\":\"half\",\"errs\":%d,\"errno\":%d,\"sent\":%ld,\"got\":%ld,\"wrong\":%ld,\"secs\":%.3f}\n", !good, good ? 0 : errno,
           run.sent, run.got, run.wrong, now() - before);
}
