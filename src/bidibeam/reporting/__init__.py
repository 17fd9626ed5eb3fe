"""What a person looks at: tables, figures and reports. Reads results only."""
