"""The writing end: produce requests, acknowledgements, the Spark writer."""
