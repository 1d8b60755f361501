"""The texts that `python -m cli.generate` writes."""
