// What loadgen's parts share: the options of this run, and the modes.
#ifndef LOAD_H
#define LOAD_H

#include "client.h"
#include "meter.h"

#define ACKED_BYTES (16u << 20) // the sink answers one byte for each so many: as in roles.h
#define BUFFER_BYTES (1u << 20)
#define SHORT_BYTES 64 // what a short connection sends and gets back

struct options {
    const char *mode;
    int connections;
    int held;        // connections that stand idle meanwhile
    int size;        // bytes of one write; of one round trip
    double seconds;
    long most_trips; // 0: only time ends it
    bool split;      // preface and first bytes in two writes
    struct dial dial;
    struct processes proxies;
};

extern struct options options;

void options_parse(int count, char **arguments);
void usage(void) __attribute__((noreturn));
bool is_mode(const char *name);

// One exchange with the echo: 0, or -1.
int trip(struct client *client, char *buffer, size_t size);

// Opens `count` connections, each with one round trip behind it. How many failed.
int open_idle(struct client *clients, int count);

// The modes. Each prints its line.
void run_in_threads(void);
void run_idle(void);
void run_wait(void);
void run_half(void);

#endif
