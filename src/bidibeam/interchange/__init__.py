"""Sources in and n-best lists in and out: the files through which other programs meet ours."""
