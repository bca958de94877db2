"""How connections to Kafka are secured: TLS and SASL.

Java's client properties become what OpenSSL and kafka-python's mechanisms take: key stores, cipher suites, OAUTHBEARER
tokens, SCRAM, AWS_MSK_IAM.
"""
