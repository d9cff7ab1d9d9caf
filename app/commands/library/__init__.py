"""Commands about what ships: models, systems, accuracy, this machine, the dashboard."""
