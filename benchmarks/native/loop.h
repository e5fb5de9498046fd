// The backend's one loop: level-triggered epoll over descriptors that each have a function to call.
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

// The first member of whatever is watched, so that one is the other's address.
struct watch {
    int fd;
    void (*ready)(struct watch *watch, uint32_t events);
    bool gone;
    struct watch *next_gone;
};

void loop_open(void);
void loop_run(void) __attribute__((noreturn));

void watch_add(struct watch *watch, uint32_t events);
void watch_change(struct watch *watch, uint32_t events);

// No event reaches it from here on. It is given to free() once the events that were fetched together are done.
void watch_bury(struct watch *watch);

#endif
