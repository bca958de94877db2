"""Log events, repeats counted, and the handlers that write them."""
