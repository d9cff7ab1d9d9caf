"""Plans as manifests for clusters: Kubernetes, Helm values, Dynamo and llm-d, with a job that
checks.

Everything is derived from a plan's document (`app.planning.document`); the fields follow the
schemas and documents named in `stacks.yaml`.
"""
