"""From partials to answers: components, lanes, aggregates, expressions."""
