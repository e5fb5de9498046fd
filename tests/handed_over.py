"""A connection that is watched after it was handed over; a duplicate of the descriptor stands for the receiver's."""

from __future__ import annotations

import socket

from sidecar.relay.handed import Handed
from sidecar.relay.terms import Terms, Traffic
from tests.turns import FOREVER, tcp


def unix():
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


class HandedOver:
    """One of them: the client, the receiver's descriptor, and the watched duplicate."""

    def __init__(self, loop, times=FOREVER, *, preface=b"preface", answer=b"", first=b"", meanwhile=b"", sockets=None):
        self.client, self.watched = sockets or tcp()
        came = preface + first
        if came:  # what the sidecar has read already; what came after the preface went along with the descriptor
            self.client.send(came)
            assert self.watched.recv(len(came), socket.MSG_WAITALL) == came
        self.receiver = self.watched.dup()
        self.receiver.setblocking(False)
        loop.closing.enter_context(self.client)
        loop.closing.enter_context(self.receiver)
        if answer:
            self.receiver.send(answer)
            assert self.client.recv(len(answer)) == answer
        for one, other in ((self.client, self.receiver), (self.receiver, self.client)):
            if meanwhile:
                one.send(meanwhile)
                assert other.recv(99) == meanwhile
        self.traffic, self.outcomes = Traffic(), []
        terms = Terms(times, loop.fence, self.traffic, loop.total)
        self.handed = Handed(
            loop.reactor, self.watched, terms, self.outcomes.append, before=len(preface), owed=len(answer)
        )
        self.handed.begin()
        self.loop = loop

    @property
    def end(self):
        self.loop.until(lambda: self.outcomes)
        self.loop.turn(1)
        assert self.watched.fileno() == -1
        assert (self.loop.total.up, self.loop.total.down) == self.counted
        return self.outcomes[0].end

    @property
    def counted(self):
        return self.traffic.up, self.traffic.down
