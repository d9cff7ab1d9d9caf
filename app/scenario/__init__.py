"""What is asked, and the estimate of it: no screen, no terminal."""
