"""What several pages use: fields and widgets, page state, the lab's services, tables, charts, links."""
