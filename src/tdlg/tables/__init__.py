"""A caller's columns (lists, arrays, series of any dataframe) as checked arrays: one kind a file."""
