"""Components of the lab's own: JavaScript that adds to what Streamlit draws. Without it the page still works."""
