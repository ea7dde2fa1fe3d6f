"""The commands, grouped by what they work on; each module registers its commands."""
