"""Log events, the filter that counts their repeats, and the handlers that write them.

An event is one sentence with its flow, topic and partition, written as text or JSON. Workers mark their lines on
stderr, and the driver logs them.
"""
