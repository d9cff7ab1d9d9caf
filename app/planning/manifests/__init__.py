"""Plans as what clusters apply: Kubernetes, Helm values, Dynamo and llm-d, with a job that checks.

Everything is made of a plan's document (`app.planning.document`); fields are read in the schemas
and documents that `stacks.yaml` names.
"""
