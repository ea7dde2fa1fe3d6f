"""Edges that did not happen and edges that might: negatives, candidates for what comes next, and splits."""
