"""The commands; each module registers its own."""
