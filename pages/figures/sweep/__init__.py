"""Figures of a sweep: throughput, latency and memory by batch size."""
