"""Health, readiness, metrics, log lines, and the workers' heartbeats and schedule."""
