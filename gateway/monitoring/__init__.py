"""How the gateway is doing: health, readiness, metrics, log lines, the workers' heartbeats and schedule."""
