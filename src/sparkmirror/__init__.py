"""SparkMirror: Kafka cluster-to-cluster replication as a PySpark Structured Streaming query."""

__version__ = "0.1.0"
