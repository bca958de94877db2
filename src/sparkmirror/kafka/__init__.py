"""The only package that talks to Kafka brokers."""
