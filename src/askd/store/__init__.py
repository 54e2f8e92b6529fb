"""Where asks and keys are kept: tables, migrations, the batch writer and queries, over SQLAlchemy Core."""
