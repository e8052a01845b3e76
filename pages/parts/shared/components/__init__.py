"""JavaScript of the lab's own, each script with the Python that puts it on a page."""
