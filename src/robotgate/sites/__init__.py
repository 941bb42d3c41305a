"""Which rules hold for an origin: the status table, records and sites."""
