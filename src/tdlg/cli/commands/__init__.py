"""The commands, by what they work on; each module registers its own."""
