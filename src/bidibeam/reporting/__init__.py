"""What a person looks at: tables now, plots and reports later. Reads results only."""
