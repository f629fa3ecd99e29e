"""Files a batch's partials into lanes and answers the windows that are due, between the Spark job and the commit."""
