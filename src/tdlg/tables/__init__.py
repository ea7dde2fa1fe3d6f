"""The caller's columns (lists, arrays, series of any dataframe) as checked arrays; one type of column or file per module."""
