"""What every part of the engine uses: names, progress, short texts, values kept by identity."""
