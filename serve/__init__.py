"""What every long-running process shares: settings, logs, a server, certificate, workers, metrics, a queue."""
