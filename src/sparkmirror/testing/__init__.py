"""Embedded Kafka brokers for demo, tests, benchmarks and users: start at `kafka.KafkaCluster`."""
