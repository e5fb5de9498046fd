// The load: connects as clients do, sends the preface, and measures. Prints one line of JSON.
//
// Proxies' processor time and memory are read from /proc for the processes that -P names. See usage() for what can be
// asked for, ../README.md for what each mode stands for.
#include "load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP_CONNECTIONS 20
#define SETTLE_MICROSECONDS 300000
#define PAUSE_MICROSECONDS 1000

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"up", run_in_threads},    {"down", run_in_threads},   {"roundtrip", run_in_threads},
    {"churn", run_in_threads}, {"reject", run_in_threads}, {"idle", run_idle},
    {"wait", run_wait},        {"half", run_half},
};

int trip(struct client *client, char *buffer, size_t size)
{
    if (client_write(client, buffer, size))
        return -1;
    return client_read_all(client, buffer, size);
}

int open_idle(struct client *clients, int count)
{
    int failed = 0;
    char bytes[SHORT_BYTES];

    memset(bytes, 'i', sizeof bytes);
    for (int i = 0; i < count; i++)
        if (client_open(&clients[i], &options.dial, 0) != DIALLED || trip(&clients[i], bytes, sizeof bytes))
            failed++;
    return failed;
}

void run_idle(void)
{
    struct client *clients = calloc(options.connections, sizeof *clients);
    struct client warm_up;
    int failed = 0;

    // What a proxy allocates once isn't the connections' memory.
    for (int i = 0; i < WARM_UP_CONNECTIONS; i++) {
        failed += open_idle(&warm_up, 1);
        client_close(&warm_up);
    }
    usleep(SETTLE_MICROSECONDS);
    long before = rss_kib_of(&options.proxies);
    failed += open_idle(clients, options.connections);
    usleep(SETTLE_MICROSECONDS);
    long after = rss_kib_of(&options.proxies);
    printf("{\"mode\":\"idle\",\"conns\":%d,\"errs\":%d,\"errno\":%d,\"rss_before_kib\":%ld,\"rss_after_kib\":%ld,"
           "\"kib_per_conn\":%.3f}\n",
           options.connections, failed, failed ? errno : 0, before, after, (double)(after - before) / options.connections);
}

void run_wait(void)
{
    double deadline = now() + options.seconds;
    struct client client;
    char bytes[SHORT_BYTES];

    memset(bytes, 'w', sizeof bytes);
    while (now() < deadline) {
        if (client_open(&client, &options.dial, 0) == DIALLED) {
            bool good = !trip(&client, bytes, sizeof bytes);
            double ready_at = now();
            client_close(&client);
            if (good) {
                printf("{\"mode\":\"wait\",\"errs\":0,\"ready_at\":%.6f}\n", ready_at);
                return;
            }
        }
        usleep(PAUSE_MICROSECONDS);
    }
    fprintf(stderr, "no round trip got through in %.1f s\n", options.seconds);
    exit(1);
}

int main(int count, char **arguments)
{
    signal(SIGPIPE, SIG_IGN);
    options_parse(count, arguments);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (is_mode(modes[i].name)) {
            modes[i].run();
            return 0;
        }
    }
    usage();
}
