"""Embedded Kafka brokers for demo, tests, benchmarks and users."""
