"""The lab's pictures: pure functions from a DataFrame to a plotly Figure, and the sentence that goes under each."""
