"""Templates in GoogleSQL, the governing of their base tables, and the engines that run them."""
