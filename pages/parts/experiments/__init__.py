"""What the pages of experiments share: Sweep, Load and Repeats. It does not import any page's folder."""
