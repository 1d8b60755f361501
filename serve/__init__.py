"""What every long-running process shares: settings, logs, a server, its certificate, its workers, its metrics, a queue."""
