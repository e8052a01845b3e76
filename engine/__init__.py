"""The engines, their policies, their measuring: everything of the lab that is not a page or a database."""
