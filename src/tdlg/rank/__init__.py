"""Ranking links: the next partner of a node, and the pairs that meet soon."""
