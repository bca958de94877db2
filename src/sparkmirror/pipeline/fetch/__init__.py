"""The reading end of a task: fetch sessions, responses, read-ahead.

`reader` is one selector loop over all brokers that lead the task's partitions; `responses` turns answers into rows;
`partitions` has the position of each partition, `throttle` its rate limits.
"""
