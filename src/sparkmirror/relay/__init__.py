"""The documented import path of the data source `kafka-runs`."""
