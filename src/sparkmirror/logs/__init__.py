"""Log events, repeats counted, and the handlers that write them.

An event is one sentence with its flow, topic and partition, as text or JSON. Workers mark their lines on stderr, and
the driver passes them on.
"""
