"""The experiments behind the tables: trials, models, statistics, reports."""
