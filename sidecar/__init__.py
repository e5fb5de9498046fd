"""A sidecar that enforces identity at connection time.

Data moves one way: ``listener`` → ``arrival`` (``preface`` and ``admission``, by ``handshake``) → ``passage``
(``upstream``) → ``relay``; ``connection`` tells one connection's whole life from top to bottom, and a ``gate`` is what
a listener's connections have in common. At the sides stand what is read (``authority``, ``floor``) and what is written
(``metrics``, ``log`` through ``journal``); ``roster`` knows who is here, and cuts whom a change revokes. ``app`` builds
all of it.

==========  ==================================================================================  =======================
layer       modules                                                                             may know
==========  ==================================================================================  =======================
words       ``reasons``, ``identity``, ``errors``                                               nothing below
pure        ``preface``, ``assignment``, ``admission``, ``handshake``, ``config``, ``dialler``  bytes and values
seams       ``accept``, ``authority``, ``floor``, ``upstream``, ``relay``, ``metrics``, ...     one foreign thing each
flow        ``roster``, ``gate``, ``arrival``, ``passage``, ``connection``, ``lifecycle``, ...  all of the above
edges       ``app``, ``gates``, ``reload``, ``telemetry``, ``admin``, ``cli``, ``client``, ...  everything
==========  ==================================================================================  =======================

``tests/test_layering.py`` holds the table that is enforced. Nothing is created at import time.
"""
