"""From a figure's specification to committed result files: expand, run, collect."""
