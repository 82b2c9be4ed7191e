"""What one looks at: overlaps, retrieval, spectra, likelihoods, storage."""
