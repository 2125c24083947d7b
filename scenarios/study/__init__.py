"""Studies: grids of arms and seeds, run in parallel, measured into one tidy table, compared with statistics."""
