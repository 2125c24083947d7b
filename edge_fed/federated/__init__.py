"""Per-FedAvg-PG: local update, cohort, aggregation, round records, and the plain loop."""
