"""The question: every parameter declared once, and the object made of them.

parameter    one declaration: type, default, limits, help, other names
parameters   all declarations, grouped as Deployment, Load, Targets and Prices
question     `Question`: one frozen, hashable value with every parameter
verbs        which parameters each verb takes, and why it leaves out the others
validity     contradictory and meaningless parameters
measured     the range of the shipped measurements
facts        facts of a priced configuration that are compared with them
comparison   compares the two
evidence     the result: categories that were never measured, distances, in words
typed        typed text as values: "10k", "1:256:x2", "h100,h200"
forms        the forms in which a value may be given
extras       options of an answer beside its question
asking       a caller's keywords as a question with arrays
"""
