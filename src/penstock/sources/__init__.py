"""What sources of rows there are, known without Spark."""
