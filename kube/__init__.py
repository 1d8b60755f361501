"""The Kubernetes API as raw JSON: verbs, a watched cache, Events. No models, which cost 24 MiB and 0.5 s."""
