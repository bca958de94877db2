"""Everything that Spark sees: data sources, query plans, session and JVM."""
