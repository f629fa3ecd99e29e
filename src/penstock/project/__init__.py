"""Project folders: penstock.yml, queries, tests and sample data come in; an engine that knows them all goes out."""
