"""What runs between a batch's job and its answers: partials become lanes, due windows become answers."""
