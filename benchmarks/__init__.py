"""The data plane measured against no proxy, HAProxy and Envoy. README.md says how to run it and what it measures.

===============  =======================================================================================================
module           what it holds
===============  =======================================================================================================
``__main__``     the command line
``native/``      the load generator and the backend, in C; ``native`` builds and runs them
``ours``         how the sidecar is started here; ``haproxy`` and ``envoy``: the rivals
``programs``     a proxy as a process: started, waited for, stopped, as another user where asked
``targets``      what is compared: the way to the backend, with a proxy or none
``scenarios``    what is measured
``rounds``       the interleaved rounds
``results``      samples, medians, spreads, ratios; kept as JSON
``goals``        the ratios to reach
``tables``       results as Markdown
``page``         ``docs/performance.md``
``machine``      what it ran on
===============  =======================================================================================================

Beside them stand ``check_backend`` and ``admission_cost``, each run by hand.
"""
