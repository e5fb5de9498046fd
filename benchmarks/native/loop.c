#include "loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define EVENTS_AT_ONCE 256

static int epoll;
static struct watch *buried;

void loop_open(void)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) {
        perror("epoll_create1");
        exit(1);
    }
}

static void control(int operation, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(epoll, operation, watch->fd, &event)) {
        perror("epoll_ctl");
        exit(1);
    }
}

void watch_add(struct watch *watch, uint32_t events)
{
    control(EPOLL_CTL_ADD, watch, events);
}

void watch_change(struct watch *watch, uint32_t events)
{
    control(EPOLL_CTL_MOD, watch, events);
}

void watch_bury(struct watch *watch)
{
    // Closing isn't enough: a connection that was handed over stays open in the sidecar, and epoll goes by the open
    // file, not by the descriptor. It would go on telling about an address that is free by then.
    epoll_ctl(epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->gone = true;
    watch->next_gone = buried;
    buried = watch;
}

static void free_buried(void)
{
    while (buried) {
        struct watch *watch = buried;
        buried = watch->next_gone;
        free(watch);
    }
}

void loop_run(void)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS_AT_ONCE, -1);
        if (count < 0 && errno != EINTR) {
            perror("epoll_wait");
            exit(1);
        }
        for (int i = 0; i < count; i++) {
            struct watch *watch = events[i].data.ptr;
            if (!watch->gone)
                watch->ready(watch, events[i].events);
        }
        free_buried();
    }
}
