"""What programs ask over HTTP, and assistants over MCP: the verbs of the command line.

bodies   what may be asked, by the names of `import ridgeline`
uploads  files that are sent, never named
verbs    a body in, the document of the command line out; nothing is computed here
workers  processes for what may take long, ended when their time is over
answers  documents as JSON, the latest ones kept
request_bounds   limits on a request: its size, its token, its host name
errors   refusals as one sentence
metrics  what is counted
rest     all of it as an application
    mcp_server, shortening   the same as tools of an assistant, in short
"""
