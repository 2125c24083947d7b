"""Studies: grids of arms and seeds, run in parallel, kept in one tidy table, compared with statistics."""
