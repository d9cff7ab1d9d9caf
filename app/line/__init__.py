"""A question as one typed line: "llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms".

words      the words of a line, and numbers with their units
names      what words name: a model, a system, an engine, a number format
reading    a line as parameters, and the verb that it asks
writing    a question as a line that reads back as the same question
sentence   a question as a sentence, part by part
presets    usual loads by name
"""
