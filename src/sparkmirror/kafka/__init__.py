"""The only package that talks to Kafka brokers.

`admin`, `groups`, `acls` and `log_offsets` ask and order over kafka-python's control-plane connection; `tail` and
`publish` read and write small internal topics; `wire` is the data path's own protocol code. `errors` is the one place
where exceptions and error codes become errors for people.
"""
