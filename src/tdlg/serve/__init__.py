"""Live scoring over HTTP, and the desk: a page for the people who look at alerts. Needs the extra `serve`."""
