"""The Spark data source `headgate`: topics as DataFrames, batch and streaming. `pyspark_headgate.py` registers it."""
