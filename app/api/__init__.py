"""HTTP and MCP interfaces: the verbs of the command line, for programs and assistants.

bodies   the accepted fields, named as in `import ridgeline`
uploads  uploaded files; a path is never accepted
verbs    from a body to the document that the command line prints; nothing is computed here
workers  processes for long questions, with a time limit
answers  documents as JSON, the latest ones cached
request_bounds   limits on a request: its size, its token, its host name
errors   errors as one sentence
metrics  counters
rest     the whole as an application
    mcp_server, shortening   the same as tools for an assistant, shortened
"""
