"""The methods that ours is compared with, one a file, and the interface that everything judged shares."""
