"""What can be asked: every parameter declared once, and the question made of them.

parameter    one declaration: type, default, limits, help, other names
parameters   all declarations, grouped as Deployment, Load, Targets and Prices
question     `Question`: one frozen, hashable value with every parameter
verbs        which parameters each verb takes, and why it leaves out the others
validity     what contradicts itself or means nothing, in one pass
measured     what the measurements that ship had
facts        what of a priced thing is compared with them
comparison   both compared, in one pass
evidence     what was found: categories that nobody measured, distances, in words
typed        typed text as values: "10k", "1:256:x2", "h100,h200"
forms        the shapes in which a value may be given
extras       what may be asked of an answer beside its question
asking       what a caller gives, by name, as a question and the arrays beside it
"""
