"""What only the Glossary page uses."""
