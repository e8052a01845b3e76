"""What several pages use. It imports no page's folder."""
