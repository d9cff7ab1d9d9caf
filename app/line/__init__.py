"""A question as one typed line: "llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms".

reading          a line as parameters, and the verb that it asks: what follows, in turn
words            the words of a line, and numbers with their units
load_words       which of them are of a load and its targets
device_words     which are of devices, and what their number is to a question
parameter_words  which name a parameter or one of its values
names            what words name: a model, a system, an engine, a number format
vocabulary       words that stand for parameters, and for nothing
presets          usual loads by name
stated           what the words state, collected as they are read
verb             the verb that is asked
unread           what is not understood, and what is near it
line             what a line says

writing          a question as a line that reads back as the same question
sentence         a question as a sentence, part by part
answering        the answer to a line
"""
