"""All methods that can be evaluated: the methods of this package and the reference methods."""
