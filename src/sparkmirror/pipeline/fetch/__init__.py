"""The reading end of a task: fetch sessions, responses, read-ahead.

`reader` is one selector loop over all brokers that lead the task's partitions; `responses` turns answers into rows;
`partitions` knows where each partition stands, `throttle` how fast it may go on.
"""
