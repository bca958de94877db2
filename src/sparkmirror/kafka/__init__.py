"""The only package that talks to Kafka brokers.

`admin`, `groups`, `acls` and `log_offsets` send requests over kafka-python's control-plane connection; `tail` and
`publish` read and write small internal topics; `wire` is the data path's own protocol code. `errors` alone turns
exceptions and error codes into errors for people, and names the codes after which a leader or coordinator is looked up
again.
"""
