"""From a model's specification to the operators of a step."""
