// Clocks, other processes' processor time and memory, and latencies. Used by loadgen.
#ifndef METER_H
#define METER_H

#include <sys/types.h>

#define MOST_PROCESSES 16

struct processes {
    pid_t ids[MOST_PROCESSES];
    int count;
};

struct cpu_seconds {
    double user;
    double system;
};

struct latencies {
    double *seconds;
    long count;
    long room;
};

double now(void); // seconds of CLOCK_MONOTONIC, which is Python's time.monotonic too

void processes_parse(struct processes *processes, char *comma_separated);
struct cpu_seconds cpu_of(const struct processes *processes); // added up, all their threads
struct cpu_seconds own_cpu(void);
long rss_kib_of(const struct processes *processes);

void latency_add(struct latencies *latencies, double seconds);
void latency_add_all(struct latencies *into, const struct latencies *from);
void latency_sort(struct latencies *latencies);
double latency_quantile(const struct latencies *sorted, double quantile);

#endif
