"""From an analysed plan to a normal plan, one file a rewrite."""
