"""Pure rules: how remote topics are named and which topics take part."""
