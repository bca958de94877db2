"""Embedded Kafka brokers for the demo, tests, benchmarks and users: start at `kafka.KafkaCluster`.

Brokers are real and run from pinned jars in child processes. `proxy` simulates a long or broken link, `kill_points` end
or stop a worker at named places, `demo` is `sparkmirror demo`.
"""
