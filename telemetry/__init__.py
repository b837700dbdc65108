"""Where traces and log lines of a process go: the OpenTelemetry exporter, and the form of a line."""
