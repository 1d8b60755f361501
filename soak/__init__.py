"""What a hostile or broken client may send, and whether the webhook bears it: `make soak`.

A package at the root, beside `benchmarks`: the test suite and the soak run the same generator and the same judge, and
tests are no package (pytest's importlib mode), so that nothing could import them from there.
"""
