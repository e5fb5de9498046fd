"""TLS: the one place that knows OpenSSL.

``pem`` finds the blocks of a PEM file, ``material`` says what a certificate, key, bundle or CRL file holds and refuses
what can't be served, ``files`` reads them. ``contexts`` makes OpenSSL's contexts of them, ``verification`` records why
a peer's chain was refused and what a failed handshake amounts to, ``peer_certificate`` what the peer presented.
``rotation`` keeps what is served fresh. ``session`` is an accepted connection on its socket, for the sidecar's side;
``stream`` is one as a trio stream, for the dialler's, and ``client`` what a dialler shows and looks for; ``errors`` is
what becomes of OpenSSL's errors there. Whoever is above gets plain values, the errors of sockets and streams, and the
package's own.
"""
