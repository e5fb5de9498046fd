// The modes with a thread for each connection, all let go at the same moment: bulk, round trips, short connections.
#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP_TRIPS 2000 // of all connections together
#define LEAST_WARM_UP_TRIPS 10 // of each
#define TOO_MANY_ERRORS 1000
#define PAUSE_MICROSECONDS 1000
#define STACK_BYTES (512 << 10)

struct worker {
    pthread_t thread;
    int id;
    char *buffer;
    struct latencies latencies;
    double bytes;
    double ended_at;
};

static pthread_barrier_t start_line;
static atomic_long errors;
static atomic_int last_errno;

static void count_error(void)
{
    last_errno = errno;
    errors++;
}

// --- bulk -------------------------------------------------------------------------------------------------------------

static void push_until(struct worker *worker, struct client *client, double end)
{
    long chunks = 0;
    long acknowledged = 0;

    do {
        for (size_t sent = 0; sent < ACKED_BYTES;) {
            size_t size = options.size;
            if (size > ACKED_BYTES - sent)
                size = ACKED_BYTES - sent;
            if (client_write(client, worker->buffer, size)) {
                count_error();
                return;
            }
            sent += size;
        }
        chunks++;
    } while (now() < end);

    // Bytes count once the other end has them; what is still in some buffer doesn't.
    while (acknowledged < chunks) {
        int got = client_read(client, worker->buffer, 4096);
        if (got <= 0) {
            count_error();
            break;
        }
        acknowledged += got;
    }
    worker->bytes = (double)acknowledged * ACKED_BYTES;
}

static void pull_until(struct worker *worker, struct client *client, double end)
{
    for (long reads = 1;; reads++) {
        int got = client_discard(client, worker->buffer, BUFFER_BYTES);
        if (got <= 0) {
            count_error();
            return;
        }
        worker->bytes += got;
        if (reads % 16 == 0 && now() > end)
            return;
    }
}

static void run_bulk(struct worker *worker)
{
    struct client client;
    bool up = is_mode("up");

    bool open = client_open(&client, &options.dial, 0) == DIALLED;
    if (!open)
        count_error();
    pthread_barrier_wait(&start_line);
    if (!open)
        return;
    double end = now() + options.seconds;
    if (up)
        push_until(worker, &client, end);
    else
        pull_until(worker, &client, end);
    worker->ended_at = now();
    client_close(&client);
}

// --- round trips ------------------------------------------------------------------------------------------------------

static void run_round_trips(struct worker *worker)
{
    struct client client;

    bool open = client_open(&client, &options.dial, 0) == DIALLED;
    bool good = open;
    int warm_up = LEAST_WARM_UP_TRIPS + WARM_UP_TRIPS / options.connections;
    for (int i = 0; good && i < warm_up; i++)
        good = !trip(&client, worker->buffer, options.size);
    if (!good)
        count_error();
    pthread_barrier_wait(&start_line);

    double end = now() + options.seconds;
    double before = now();
    while (good && before < end && (!options.most_trips || worker->latencies.count < options.most_trips)) {
        good = !trip(&client, worker->buffer, options.size);
        double after = now();
        if (good)
            latency_add(&worker->latencies, after - before);
        else
            count_error();
        before = after;
    }
    worker->ended_at = now();
    if (open)
        client_close(&client);
}

// --- short connections ------------------------------------------------------------------------------------------------

// Preface and first bytes, in one write where that may be. 0, or -1.
static int send_preface_and_first_bytes(struct client *client)
{
    char bytes[LONGEST_PREFACE + SHORT_BYTES];
    size_t preface = options.dial.preface.length;

    memcpy(bytes, options.dial.preface.bytes, preface);
    memset(bytes + preface, 'q', SHORT_BYTES);
    if (!options.split && !options.dial.wants_answer)
        return client_write(client, bytes, preface + SHORT_BYTES);
    if (client_write(client, bytes, preface))
        return -1;
    if (client_await_answer(client, &options.dial))
        return -1;
    return client_write(client, bytes + preface, SHORT_BYTES);
}

static bool short_connection(struct worker *worker)
{
    struct client client;
    char back[SHORT_BYTES];

    if (client_connect(&client, &options.dial, 1 + worker->id) != DIALLED)
        return false;
    bool good = !send_preface_and_first_bytes(&client) && !client_read_all(&client, back, sizeof back);
    int error = errno;
    client_close(&client);
    errno = error;
    return good;
}

// Whether it was turned away: in the handshake, or by an end before any byte from behind the proxy.
static bool refused_connection(struct worker *worker)
{
    struct client client;
    char back[SHORT_BYTES];

    enum dialled dialled = client_connect(&client, &options.dial, 1 + worker->id);
    if (dialled != DIALLED)
        return dialled == NO_HANDSHAKE;
    send_preface_and_first_bytes(&client);
    errno = 0;
    int got = client_read(&client, back, sizeof back);
    int error = errno;
    client_close(&client);
    errno = error;
    if (got > 0)
        return back[0] != 'q';
    return got == 0 || error != EAGAIN;
}

static void run_short_connections(struct worker *worker)
{
    bool (*connection)(struct worker *) = is_mode("reject") ? refused_connection : short_connection;

    pthread_barrier_wait(&start_line);
    double end = now() + options.seconds;
    double before = now();
    while (before < end && errors < TOO_MANY_ERRORS) {
        bool good = connection(worker);
        double after = now();
        if (good) {
            latency_add(&worker->latencies, after - before);
        } else {
            count_error();
            usleep(PAUSE_MICROSECONDS);
        }
        before = after;
    }
    worker->ended_at = now();
}

// --- all of them ------------------------------------------------------------------------------------------------------

static void *run_worker(void *argument)
{
    struct worker *worker = argument;

    worker->buffer = aligned_alloc(4096, BUFFER_BYTES);
    memset(worker->buffer, 'x', options.size);
    if (is_mode("up") || is_mode("down"))
        run_bulk(worker);
    else if (is_mode("roundtrip"))
        run_round_trips(worker);
    else
        run_short_connections(worker);
    free(worker->buffer);
    return NULL;
}

static void start_workers(struct worker *workers)
{
    pthread_attr_t attributes;

    pthread_barrier_init(&start_line, NULL, options.connections + 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < options.connections; i++) {
        workers[i].id = i;
        if (pthread_create(&workers[i].thread, &attributes, run_worker, &workers[i])) {
            perror("pthread_create");
            exit(1);
        }
    }
}

static double total(struct cpu_seconds cpu)
{
    return cpu.user + cpu.system;
}

void run_in_threads(void)
{
    struct client *held = calloc(options.held + 1, sizeof *held);
    struct worker *workers = calloc(options.connections, sizeof *workers);
    struct latencies latencies = {0};
    double bytes = 0;
    double ended_at = 0;

    if (open_idle(held, options.held)) {
        fprintf(stderr, "not every idle connection could be opened\n");
        exit(1);
    }
    start_workers(workers);
    struct cpu_seconds proxies_before = cpu_of(&options.proxies);
    pthread_barrier_wait(&start_line);
    struct cpu_seconds own_before = own_cpu();
    double began_at = now();
    for (int i = 0; i < options.connections; i++) {
        pthread_join(workers[i].thread, NULL);
        bytes += workers[i].bytes;
        latency_add_all(&latencies, &workers[i].latencies);
        if (workers[i].ended_at > ended_at)
            ended_at = workers[i].ended_at;
    }
    struct cpu_seconds own_after = own_cpu();
    struct cpu_seconds proxies_after = cpu_of(&options.proxies);

    double elapsed = ended_at - began_at;
    double proxies = total(proxies_after) - total(proxies_before);
    double own = total(own_after) - total(own_before);
    printf("{\"mode\":\"%s\",\"conns\":%d,\"size\":%d,\"secs\":%.3f,\"errs\":%ld,\"errno\":%d,\"cpu_user\":%.2f,"
           "\"cpu_system\":%.2f,\"own_cpu\":%.2f",
           options.mode, options.connections, options.size, elapsed, errors, errors ? last_errno : 0,
           proxies_after.user - proxies_before.user, proxies_after.system - proxies_before.system, own);
    if (bytes)
        printf(",\"gb_per_s\":%.4f,\"cpu_s_per_gb\":%.4f,\"own_s_per_gb\":%.4f", bytes / elapsed / 1e9,
               proxies / (bytes / 1e9), own / (bytes / 1e9));
    if (latencies.count) {
        latency_sort(&latencies);
        printf(",\"n\":%ld,\"per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,\"cpu_us\":%.2f,"
               "\"own_us\":%.2f",
               latencies.count, latencies.count / elapsed, latency_quantile(&latencies, .5) * 1e6,
               latency_quantile(&latencies, .99) * 1e6, latency_quantile(&latencies, 1) * 1e6,
               proxies / latencies.count * 1e6, own / latencies.count * 1e6);
    }
    printf("}\n");
}
