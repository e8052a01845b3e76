"""Reports: a run, a comparison, a sweep or a load test as one HTML file, or as Markdown."""
