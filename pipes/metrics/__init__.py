"""Metrics of a loader for Prometheus and OpenTelemetry."""

from .exporters import opentelemetry, prometheus

__all__ = ["opentelemetry", "prometheus"]
