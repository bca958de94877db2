"""Jobs that keep topics in step: observe, plan, apply."""
