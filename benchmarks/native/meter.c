#include "meter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

double now(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + moment.tv_nsec * 1e-9;
}

void processes_parse(struct processes *processes, char *comma_separated)
{
    char *position = NULL;
    char *id = strtok_r(comma_separated, ",", &position);
    while (id && processes->count < MOST_PROCESSES) {
        processes->ids[processes->count++] = atoi(id);
        id = strtok_r(NULL, ",", &position);
    }
}

static void add_cpu_of(pid_t id, struct cpu_seconds *sum)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)id);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;

    // The name in parentheses may hold anything, so the fields are counted from the last one.
    char *after_name = strrchr(text, ')');
    unsigned long user = 0;
    unsigned long system = 0;
    if (!after_name)
        return;
    if (sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return;
    double tick = 1.0 / sysconf(_SC_CLK_TCK);
    sum->user += user * tick;
    sum->system += system * tick;
}

struct cpu_seconds cpu_of(const struct processes *processes)
{
    struct cpu_seconds sum = {0, 0};
    for (int i = 0; i < processes->count; i++)
        add_cpu_of(processes->ids[i], &sum);
    return sum;
}

static double seconds_of(struct timeval moment)
{
    return moment.tv_sec + moment.tv_usec * 1e-6;
}

struct cpu_seconds own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct cpu_seconds own = {seconds_of(usage.ru_utime), seconds_of(usage.ru_stime)};
    return own;
}

static long rss_kib_of_one(pid_t id)
{
    char path[64];
    char line[256];
    long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)id);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

long rss_kib_of(const struct processes *processes)
{
    long sum = 0;
    for (int i = 0; i < processes->count; i++)
        sum += rss_kib_of_one(processes->ids[i]);
    return sum;
}

static void make_room(struct latencies *latencies, long count)
{
    if (count <= latencies->room)
        return;
    latencies->room = count > 2 * latencies->room ? count : 2 * latencies->room;
    if (latencies->room < 4096)
        latencies->room = 4096;
    latencies->seconds = realloc(latencies->seconds, latencies->room * sizeof *latencies->seconds);
    if (!latencies->seconds)
        abort();
}

void latency_add(struct latencies *latencies, double seconds)
{
    make_room(latencies, latencies->count + 1);
    latencies->seconds[latencies->count++] = seconds;
}

void latency_add_all(struct latencies *into, const struct latencies *from)
{
    if (!from->count)
        return;
    make_room(into, into->count + from->count);
    memcpy(into->seconds + into->count, from->seconds, from->count * sizeof *from->seconds);
    into->count += from->count;
}

static int ascending(const void *left, const void *right)
{
    double x = *(const double *)left;
    double y = *(const double *)right;
    return (x > y) - (x < y);
}

void latency_sort(struct latencies *latencies)
{
    qsort(latencies->seconds, latencies->count, sizeof *latencies->seconds, ascending);
}

double latency_quantile(const struct latencies *sorted, double quantile)
{
    long index = (long)(sorted->count * quantile);
    if (index >= sorted->count)
        index = sorted->count - 1;
    return sorted->seconds[index];
}
