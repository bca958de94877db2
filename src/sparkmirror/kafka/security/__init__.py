"""How connections to Kafka are secured: TLS and SASL."""
