"""The scenario of a question, and its estimate, independent of dashboard and terminal."""
