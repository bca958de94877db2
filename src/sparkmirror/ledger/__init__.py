"""What is durable about progress."""
