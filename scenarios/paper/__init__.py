"""The paper: its studies, its published values, its figures, and what we found of them."""
