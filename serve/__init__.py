"""What every long-running process shares: settings, logs, health."""
