"""Scoring as events come."""
