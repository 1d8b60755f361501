"""A fake cluster for tests and the demo: an API server that does what kube-apiserver does around admission."""
