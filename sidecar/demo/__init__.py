"""``sidecar demo``: three replicas with real sidecars, a controller, and what goes wrong with addresses.

Data moves one way:

    record      which pod runs a slot, and where: what a controller looks up
    lines       a stream as lines of text, for the two below
    replica     the local process: a shard that counts who reaches it
    difference  the one way in which the demo fails
    controller  who dials and drives replicas
    leash       child processes that end with their parent
    volume      a file as the kubelet mounts it, that says which generation a pod is
    scrape      what a sidecar has counted, from its ``/metrics``
    front       one sidecar process, from its configuration to its end
    pod         a replica and the sidecar in front of it
    fleet       the pods, their addresses, and the lookup
    stranger    who dials and is no controller
    screen      how it looks
    witness     does what is told, and sees whether it comes out as told
    story       the steps
    guide       what to try while it keeps running
    stage       the directory, the signals, and the end: every process and file goes

Nothing of it is used by the sidecar itself.
"""
