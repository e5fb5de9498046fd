"""Keys and certificates: a development CA, and a look into what files hold.

``authority`` makes them, ``store`` puts them on disk so that no key is ever readable by others, ``contents`` takes PEM
files apart, ``report`` says what stands in them and ``fitting`` whether it fits together. Meant for development and for
finding faults: in production certificates come from SPIRE, cert-manager or Kubernetes (certs/README.md), and the
sidecar that serves them has a reader of its own. Called by the ``certs`` command, and by the demo.
"""
