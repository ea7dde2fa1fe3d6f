"""Columns from products with the line graph: decayed label rates, counts and means over neighbouring edges."""
