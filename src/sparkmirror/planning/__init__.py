"""Which task reads which partition, from where: the planning of a flow."""
