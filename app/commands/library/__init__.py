"""Commands for the libraries: models, systems, accuracy, this machine, the dashboard."""
