"""What is known of the edges, multiplied with the line graph: decayed rates, counts and means over neighbours."""
