"""Adapter of OpenTelemetry: spans to a collector."""
