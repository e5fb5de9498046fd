// The receiver's side of the hand-over, format 1: takes connections as descriptors. docs/handoff.md has the format.
#ifndef RECEIVER_H
#define RECEIVER_H

#include "roles.h"

// Takes over a listening SOCK_SEQPACKET socket. What comes through it is served in this role.
void receiver_open(int listening, enum role role);

#endif
