"""Whether a target holds what its source holds: `sparkmirror verify`, a Spark batch job over both clusters."""
