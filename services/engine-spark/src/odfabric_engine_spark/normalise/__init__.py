"""From an analysed plan to a normal one: few kinds of nodes, nothing that waits is left implicit."""
