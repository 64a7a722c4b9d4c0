"""The passes: each a function from graph to graph; `pipeline` lists them."""
