"""A sidecar that enforces identity at connection time.

Data moves one way: ``listener`` → (``preface`` → ``admission``, by ``handshake``) → ``upstream`` → ``relay``;
``connection`` tells one connection's whole life from top to bottom. At the sides stand what is read (``authority``) and
what is written (``metrics``, ``log`` through ``journal``); ``roster`` knows who is here. ``app`` builds all of it.

==========  ==================================================================================  =======================
layer       modules                                                                             may know
==========  ==================================================================================  =======================
words       ``reasons``, ``identity``, ``errors``                                               nothing below
pure        ``preface``, ``admission``, ``handshake``, ``config``, ``dialler``                  bytes and values
seams       ``accept``, ``authority``, ``bind``, ``upstream``, ``relay``, ``metrics``, ...      one foreign thing each
flow        ``roster``, ``connection``, ``journal``, ``listener``, ``lifecycle``                all of the above
edges       ``app``, ``control``, ``telemetry``, ``admin``, ``cli``, ``client``, ``demo``       everything
==========  ==================================================================================  =======================

``tests/test_layering.py`` holds the table that is enforced. Nothing is created at import time.
"""
